//! Custom resources: their structural schemas, what the server does with objects under one, and the
//! CustomResourceDefinition objects that carry them.
//!
//! Everything here is pure: no IO, no clock, no store. `server` decides when a definition is served.

pub mod columns;
pub mod crd;
mod decode;
pub mod defaulting;
pub mod embedded;
mod embedded_meta;
pub mod jsonpath;
pub mod list_type;
pub mod object_meta;
mod openapi;
pub mod pruning;
pub mod ratchet;
mod rules;
mod scale;
mod strategy;
mod strict;
pub mod structural;
pub mod validate;

pub use crd::resources_of;
pub use strategy::CrdStrategy;
pub use strict::duplicate_fields;
pub use structural::Structural;

#[cfg(test)]
mod tests;
