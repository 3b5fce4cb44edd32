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
//! | [`engine`] | [`Engine`], [`Controller`], their [`EngineSettings`] and [`ControllerOptions`], and [`ErasedKind`] |
//! | [`context`] | [`Context`]: the input of a reconcile |
//! | [`verdict`], [`error`] | [`Action`] and [`Error`]: the result of a reconcile |
//! | [`conditions`], [`events`] | [`Condition`] and [`EventNote`]: its messages to people |
//! | [`cache`], [`lens`], [`view`], [`watch`], [`key`] | [`Cache`], [`Predicate`], [`View`], [`CallContext`], [`ObjectKey`]: the objects it reads, and their fields |
//! | [`budget`], [`flight`] | [`RateLimiter`] and [`SingleFlight`]: calls to other systems, and reads of them that are shared |
//! | [`fence`], [`lease`] | the right to act, and [`LeaseConfig`] for leader election |
//! | [`backoff`], [`queue::QueueConfig`] | backoff policies and lanes, where the defaults of [`ControllerOptions`] do not fit |
//! | [`telemetry`], [`admin`], [`journal`] | [`Telemetry`], the endpoints, and the history of each object |
//! | [`clock`], [`tasks`] | [`Clock`] and [`Tasks`]: the source of time and the executor of tasks, for tests |
//!
//! The parts of the engine. Public for tests and benchmarks; an operator needs none of them.
//!
//! | module | what is in it |
//! |---|---|
//! | [`queue`] | which key runs next, apart from its [`QueueConfig`](queue::QueueConfig), [`Lane`](queue::Lane) and [`RunReason`](queue::RunReason) |
//! | [`hub`] | every watch of the process, one per view and scope |
//! | [`writer`], [`managed`] | writes that are skipped if they would change nothing, and the owners of fields |
//! | [`gate`] | rate limit and deadline of a client, apart from [`client`] |
//! | [`scope`], [`version`] | the run that a call belongs to, and resource versions |
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod action;
pub mod admin;
pub mod backoff;
pub mod cache;
pub mod call_context;
pub mod client;
pub mod clock;
pub mod conditions;
pub mod context;
pub mod engine;
pub mod error;
pub mod events;
pub mod fence;
pub mod flight;
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
pub mod version;
pub mod view;
pub mod watch;
pub mod writer;

pub use action::Action;
pub use cache::{Cache, CacheEvent, Freshness};
pub use client::client;
pub use clock::Clock;
pub use conditions::Condition;
pub use context::Context;
pub use engine::{Controller, ControllerOptions, Engine, EngineSettings, Kind, Trigger};
pub use error::{Error, ErrorClass, Result};
pub use events::EventNote;
pub use flight::SingleFlight;
pub use informer::{Informer, InformerSet};
pub use key::{ObjectKey, ObjectRef};
pub use leadership::LeaseConfig;
pub use predicate::{Predicate, PredicateResult};
pub use ratelimit::RateLimiter;
pub use tasks::Tasks;
pub use telemetry::Telemetry;
pub use view::{MetaRef, MetadataOnly, View, ViewMeta};
pub use watch::Scope;
pub use writer::MetadataPatch;
