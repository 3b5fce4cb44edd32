//! The wire: HTTP requests in, answers out, in process and over sockets.
//!
//! URLs, headers, bodies and the server's words about them live here; what verbs do is `registry`'s
//! business, and this module never touches the store.

mod body;
mod builtin;
mod connect;
mod convert;
mod deadline;
mod deprecation;
mod discovery;
mod filters;
mod handlers;
mod health;
mod limits;
mod list_encoding;
mod malformed_request;
mod negotiate;
mod nonresource;
mod openapi;
mod openid;
mod params;
pub mod protobuf;
mod proxy;
mod representation;
mod response;
mod route;
mod router;
pub(crate) mod service;
mod watch;
mod yaml;

pub(crate) mod kubeconfig;
pub(crate) mod serve;
pub(crate) mod tls;

pub use limits::Limits;
pub use response::Body;
pub use serve::{Handle, serve};
pub use service::{Service, admin, client};
pub use tls::Identity;
