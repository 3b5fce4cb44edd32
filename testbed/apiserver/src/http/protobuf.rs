//! Kubernetes' protobuf: objects, lists, errors and watch frames as bytes, and back.
//!
//! Inside the box everything is JSON; this is only a way to write it. A table made from the Go types
//! (`data/`) says which number, name and type each field has, so no kind is known here by name.
//! Output is the server's to the byte: fields by number, maps by key, zeros that are no pointers
//! written out. Whether a body is a good object of its kind is `registry`'s business.

mod envelope;
mod read;
mod special;
mod stream;
mod table;
#[cfg(test)]
mod tests;
mod wire;
mod write;

pub(super) use envelope::not_marshalable;
pub use envelope::{Unreadable, decode, encode};
pub use stream::{events, frame};

/// Every body starts with it.
const MAGIC: &[u8] = b"k8s\0";
