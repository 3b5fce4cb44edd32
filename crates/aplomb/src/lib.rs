//! A reconcile runtime on kube-rs that tells one kind of pushback from another.
//!
//! A conflict waits for the version that won and runs at once; a throttle closes a shared budget;
//! noise is dropped by a lens before it becomes a run; silence is shown as what it is.
//!
//! This crate depends on no other crate of the workspace and must stay usable alone.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod admin;
pub mod backoff;
pub mod budget;
pub mod cache;
pub mod clock;
pub mod conditions;
pub mod context;
pub mod engine;
pub mod error;
pub mod events;
pub mod fence;
pub mod flight;
pub mod gate;
pub mod hub;
pub mod journal;
pub mod key;
pub mod lease;
pub mod lens;
pub mod managed;
pub mod queue;
mod recent;
pub mod scope;
pub mod tasks;
pub mod telemetry;
pub mod verdict;
pub mod version;
pub mod view;
pub mod watch;
pub mod writer;

pub use cache::{Cache, Event, Freshness};
pub use context::Context;
pub use engine::{Controller, Engine};
pub use error::{Class, Error, Result};
pub use gate::client;
pub use hub::{Hub, Watch};
pub use key::{Key, ObjectId};
pub use lens::{Lens, Sight};
pub use verdict::Verdict;
pub use view::{Meta, MetaOnly, MetaRef, View};
