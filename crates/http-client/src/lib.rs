//! HTTP to systems outside Kubernetes: a transport that a simulator can replace, and tokens that cannot be
//! printed. It is independent of any particular API.
#![forbid(unsafe_code)]

pub mod token;
pub mod transport;

pub use token::ApiToken;
pub use transport::{BoxError, Transport};
