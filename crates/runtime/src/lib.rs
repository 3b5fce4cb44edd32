//! A reconcile runtime on kube-rs that treats conflicts, throttling and noise differently. It depends on no
//! other crate of its workspace and must stay usable alone.
//!
#![doc = include_str!("../README.md")]
//!
//! # The parts
//!
//! What an operator uses; the names it needs most are re-exported at the root.
//!
//! | module | what is in it |
//! |---|---|
//! | [`engine`], [`controller`] | [`Engine`], [`Controller`], their [`EngineSettings`] and [`ControllerOptions`], backoff policies, and [`Kind`] |
//! | [`context`] | [`Context`]: the input of a reconcile |
//! | [`action`], [`error`] | [`Action`] and [`Error`]: the result of a reconcile |
//! | [`conditions`], [`events`] | [`Condition`] and [`EventNote`]: its messages to people |
//! | [`cache`], [`predicate`], [`view`], [`key`] | [`Cache`], [`Predicate`], [`View`], [`Scope`], [`ObjectKey`]: the objects it reads, and their fields |
//! | [`ratelimit`] | [`RateLimiter`] and [`SingleFlight`]: calls to other systems, and reads of them that are shared |
//! | [`leadership`] | leader election with a [`LeaseConfig`], and the [`Fence`](leadership::fence::Fence): the right to act |
//! | [`queue::QueueConfig`] | lanes, where the defaults of [`ControllerOptions`] do not fit |
//! | [`telemetry`], [`admin`], [`journal`] | [`Telemetry`], the endpoints, and the history of each object |
//! | [`clock`], [`tasks`] | [`Clock`] and [`Tasks`]: the source of time and the executor of tasks, for tests |
//!
//! The parts of the engine. Public for tests and benchmarks; an operator needs none of them.
//!
//! | module | what is in it |
//! |---|---|
//! | [`queue`] | which key runs next, apart from its [`QueueConfig`](queue::QueueConfig), [`Lane`](queue::Lane) and [`RunReason`](queue::RunReason) |
//! | [`informer`] | every watch of the process, one per view and scope |
//! | [`writer`], [`managed_fields`] | writes that are skipped if they would change nothing, and the owners of fields |
//! | [`client`](mod@client) | rate limit and deadline of a client |
//! | [`call_context`] | the run that a call belongs to |
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod action;
pub mod admin;
pub mod cache;
pub mod call_context;
pub mod client;
pub mod clock;
pub mod conditions;
pub mod context;
pub mod controller;
pub mod engine;
pub mod error;
pub mod events;
pub mod informer;
pub mod journal;
pub mod key;
pub mod leadership;
pub mod managed_fields;
pub mod nulls;
pub mod predicate;
pub mod queue;
pub mod ratelimit;
mod support;
pub mod tasks;
pub mod telemetry;
pub mod view;
pub mod writer;

pub use crate::action::Action;
pub use crate::cache::{Cache, CacheEvent, Freshness};
pub use crate::client::client;
pub use crate::clock::Clock;
pub use crate::conditions::Condition;
pub use crate::context::Context;
pub use crate::controller::{Controller, ControllerOptions, Kind, Trigger};
pub use crate::engine::{Engine, EngineSettings};
pub use crate::error::{Error, ErrorClass, Result};
pub use crate::events::EventNote;
pub use crate::informer::{Informer, InformerSet, Scope};
pub use crate::key::{ObjectKey, ObjectRef};
pub use crate::leadership::LeaseConfig;
pub use crate::predicate::{Predicate, PredicateResult};
pub use crate::ratelimit::RateLimiter;
pub use crate::ratelimit::single_flight::SingleFlight;
pub use crate::tasks::Tasks;
pub use crate::telemetry::Telemetry;
pub use crate::view::{MetaRef, MetadataOnly, View, ViewMeta};
pub use crate::writer::MetadataPatch;
