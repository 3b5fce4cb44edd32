//! OpenAPI: what the server publishes about every kind it serves, in v3 (a document per group
//! version) and in v2 (one for all).
//!
//! Documents of the built-in kinds are vendored; those of custom resources are made from their
//! definitions when first asked for after a change. How they are sent is `serve`'s business.

mod builtin;
mod cache;
mod custom;
mod document;
mod proto;
mod raw;
mod serve;
mod swagger;

pub(super) use cache::OpenApiCache;
pub(super) use serve::{document, index, swagger};
