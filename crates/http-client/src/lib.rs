//! How operators reach systems that are not Kubernetes: a transport that a simulator can stand in for,
//! and tokens that cannot be printed. Nothing here knows what any of those systems says.
#![forbid(unsafe_code)]

pub mod token;
pub mod transport;

pub use token::ApiToken;
pub use transport::{BoxError, Transport};
