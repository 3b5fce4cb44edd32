//! Who asks: an object of one of the operator's kinds. It is a name only; what is known of it is elsewhere.

use std::fmt;

use aplomb::ObjectKey;

/// An object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Object {
    /// Its kind, as manifests write it.
    pub kind: &'static str,
    /// Its namespace and name.
    pub key: ObjectKey,
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.key)
    }
}
