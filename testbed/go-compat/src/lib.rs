//! Texts as Go prints and parses them: clients match on the messages of the API server, and those are
//! Go's.
//!
//! Nothing here knows Kubernetes.
#![forbid(unsafe_code)]

pub mod base64;
pub mod html_escape;
pub mod json;
pub mod quote;
pub mod regex;
pub mod statics;
pub mod time;

pub use json::{escaped, float, json};
pub use quote::quote;
