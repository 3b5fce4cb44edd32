//! A reconcile runtime on kube-rs that tells one kind of pushback from another. It depends on no
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
//! | [`context`] | [`Context`]: what a reconcile is given |
//! | [`verdict`], [`error`] | [`Action`] and [`Error`]: what it returns |
//! | [`conditions`], [`events`] | [`Condition`] and [`EventNote`]: what it tells people |
//! | [`cache`], [`lens`], [`view`], [`watch`], [`key`] | [`Cache`], [`Predicate`], [`View`], [`CallContext`], [`ObjectKey`]: what it reads, and how much of it |
//! | [`budget`], [`flight`] | [`RateLimiter`] and [`SingleFlight`]: calls to other systems, and reads of them that are shared |
//! | [`fence`], [`lease`] | the right to act, and [`LeaseConfig`] for leader election |
//! | [`backoff`], [`queue::Config`] | curves and lanes, where the defaults of [`ControllerOptions`] do not fit |
//! | [`telemetry`], [`admin`], [`journal`] | [`Telemetry`], the endpoints, and what is remembered of each object |
//! | [`clock`], [`tasks`] | [`Clock`] and [`Tasks`]: where time comes from and where work runs, for tests |
//!
//! What the engine uses. Public for tests, benchmarks and the curious; an operator needs none of it.
//!
//! | module | what is in it |
//! |---|---|
//! | [`queue`] | which key runs next, beyond its [`Config`](queue::Config), [`Lane`](queue::Lane) and [`RunReason`](queue::Reason) |
//! | [`hub`] | every watch of the process, one per view and scope |
//! | [`writer`], [`managed`] | writes that are not sent when they would change nothing, and who owns which field |
//! | [`gate`] | what holds a client to its budget and deadline, beyond [`client`] |
//! | [`scope`], [`version`] | what a call knows of its run, and resource versions |
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod admin;
pub mod backoff;
pub mod ratelimit;
pub mod cache;
pub mod clock;
pub mod conditions;
pub mod context;
pub mod engine;
pub mod error;
pub mod events;
pub mod fence;
pub mod flight;
pub mod client;
pub mod informer;
pub mod journal;
pub mod key;
pub mod leadership;
pub mod predicate;
pub mod managed_fields;
pub mod nulls;
pub mod queue;
mod support;
pub mod call_context;
pub mod tasks;
pub mod telemetry;
pub mod action;
pub mod version;
pub mod view;
pub mod watch;
pub mod writer;

pub use ratelimit::RateLimiter;
pub use cache::{Cache, CacheEvent, Freshness};
pub use clock::Clock;
pub use conditions::Condition;
pub use context::Context;
pub use engine::{Controller, ControllerOptions, Engine, EngineSettings, Kind, Trigger};
pub use error::{Error, ErrorClass, Result};
pub use events::EventNote;
pub use flight::SingleFlight;
pub use client::client;
pub use informer::{Informer, InformerSet};
pub use key::{ObjectKey, ObjectRef};
pub use leadership::LeaseConfig;
pub use predicate::{Predicate, PredicateResult};
pub use tasks::Tasks;
pub use telemetry::Telemetry;
pub use action::Action;
pub use view::{MetaRef, MetadataOnly, View, ViewMeta};
pub use watch::Scope;
pub use writer::MetadataPatch;
