//! Who is asking, and whether they may.
//!
//! Tokens are a table given when the box starts, and those of service accounts; roles and bindings are the stored objects. Nothing
//! here reads URLs: the wire says what is asked for.

pub mod accounts;
pub mod escalation;
pub mod impersonate;
pub(crate) mod jwt;
pub mod rbac;
pub mod review;
mod rules;
pub mod tokens;

pub use rbac::{Attributes, AuthorizationDecision};
pub use tokens::Tokens;
