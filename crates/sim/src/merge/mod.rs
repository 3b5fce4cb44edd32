//! Structured merge and field management, as the API server does them.
//!
//! [`FieldManager`] is the only thing the rest of the box needs: it turns a write into the object
//! to store with its `metadata.managedFields`, and a server-side apply into the merged object.
//! Below it stand, from the bottom up: values ([`value`]), paths and sets of fields ([`path`],
//! [`set`], [`fields_v1`]), types read from OpenAPI ([`schema`], [`openapi`]), the walks over a
//! value and its type ([`typed`]) and the rules of ownership ([`update`]).
//!
//! Everything here is pure: no clock, no storage, no knowledge of single kinds. Only `edge`
//! knows the rest of the box.

pub mod conflict;
mod edge;
mod empty;
pub mod fields_v1;
mod last_applied;
pub mod managed;
pub mod manager;
mod object;
mod object_meta;
pub mod openapi;
pub mod path;
pub mod schema;
pub mod set;
#[cfg(test)]
mod tests;
mod time;
pub mod typed;
pub mod types;
pub mod update;
pub mod value;

pub use manager::{FieldManager, MergeError, Version, Writer};
