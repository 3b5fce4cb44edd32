//! A connector: iroh in, a local service out. It serves only the gateways its class lists and dials
//! only the targets it was told to expose.
//!
//! | module | what is in it |
//! |---|---|
//! | [`agent`] | [`AgentSettings`] and [`run`]: all of it together |
//! | [`event`] | [`AgentEvent`]: what there is to tell a person |
//! | [`key`] | the secret key and its file |
//! | [`register`] | the Connector and the HTTPProxy |
//! | [`heart`] | the Lease and when it is renewed |
//! | [`publish`] | how the agent is reached, kept current |
//! | [`serve`], [`accept`], [`answer`] | gateways, their connections, their streams |
//! | [`origin`], [`target`], [`tls`] | the services that are exposed |
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod accept;
pub mod agent;
pub mod stream_handler;
mod beat;
pub mod error;
pub mod event;
pub mod frame;
pub mod lease;
pub mod key;
pub mod origin;
mod reported;
pub mod publish;
pub mod register;
pub mod serve;
mod endpoint;
pub mod target;
pub mod tls;
mod informers;

pub use agent::{AgentSettings, run};
pub use error::{Error, Result};
pub use event::AgentEvent;
pub use key::AgentKey;
pub use target::{ExposedTarget, ExposedTargets};

/// The field manager of everything an agent writes.
pub const FIELD_MANAGER: &str = "aplomb-agent";
