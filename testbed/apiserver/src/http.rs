//! The wire: HTTP requests in, answers out, in process and over sockets.
//!
//! URLs, headers, bodies and the server's words about them live here; what verbs do is `rest`'s
//! business, and this module never touches the store.

mod body;
mod builtin;
mod connect;
mod convert;
mod deadline;
mod deprecation;
mod discovery;
mod dispatch;
mod exchange;
mod health;
mod limits;
mod listing;
mod negotiate;
mod nonresource;
mod openapi;
mod openid;
mod params;
mod perform;
pub mod protobuf;
mod proxy;
mod refusal;
mod respond;
mod route;
mod service;
mod view;
mod watch;
mod yaml;

mod boxed;
mod kubeconfig;
mod serve;
mod tls;

pub use boxed::{BoxConfig, Error, Running, start, start_with};
pub use limits::Limits;
pub use respond::Body;
pub use serve::{Handle, serve};
pub use service::{Service, admin, client};
pub use tls::Identity;
