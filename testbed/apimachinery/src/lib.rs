//! What every part of a Kubernetes API server speaks of: errors as a `Status`, errors of a field,
//! metadata of objects, resources and their strategies, label selectors, rules for names, and time.
//!
//! Nothing here knows a verb, HTTP or a store.
#![forbid(unsafe_code)]

pub mod clock;
pub mod encoded_object;
pub mod field;
pub mod json;
pub mod labels;
pub mod object;
pub mod private_file;
pub mod query;
pub mod resource;
pub mod status;
pub mod validation;
