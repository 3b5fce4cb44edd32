//! Subresources other than `/status`: other views of an object, each with rules of its own.
//!
//! `scale` of custom resources and `finalize` of namespaces. URLs and headers are the business of
//! `http`; `rest` knows only objects and their status.

pub mod finalize;
pub mod scale;
