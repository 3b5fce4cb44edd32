//! A connector: iroh in, a local service out. It serves only the gateways its class lists and dials
//! only the targets that it exposes.
//!
//! | module | content |
//! |---|---|
//! | [`agent`] | [`AgentSettings`] and [`run`]: the whole agent |
//! | [`event`] | [`AgentEvent`]: events for the user |
//! | [`key`] | the secret key and its file |
//! | [`register`] | the Connector and the HTTPProxy |
//! | [`lease`] | the Lease and when it is renewed |
//! | [`publish`] | the published addresses |
//! | [`serve`], [`accept`], [`stream_handler`] | connections of gateways and their streams |
//! | [`origin`], [`target`], [`tls`] | the exposed services |
#![forbid(unsafe_code)]

pub mod accept;
pub mod agent;
mod endpoint;
pub mod error;
pub mod event;
mod informers;
pub mod key;
pub mod lease;
pub mod origin;
pub mod publish;
pub mod register;
pub mod serve;
pub mod stream_handler;
pub mod target;
pub mod tls;

pub use agent::{AgentSettings, run};
pub use error::{Error, Result};
pub use event::AgentEvent;
pub use key::AgentKey;
pub use target::{ExposedTarget, ExposedTargets};

/// The field manager of everything an agent writes.
pub const FIELD_MANAGER: &str = "aplomb-agent";
