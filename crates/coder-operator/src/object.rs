//! The object that makes a call. Identity only, without state.

use std::fmt;

use aplomb::ObjectKey;

/// An object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Object {
    /// Its kind, as in manifests.
    pub(crate) kind: &'static str,
    /// Its namespace and name.
    pub(crate) key: ObjectKey,
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.key)
    }
}
