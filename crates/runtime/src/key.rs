//! Names of objects and their resource versions.

use std::fmt;
use std::sync::Arc;

/// Namespace and name of an object of a known kind. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The namespace; `None` for cluster-scoped kinds.
    pub namespace: Option<Arc<str>>,
    /// The name.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// The key of `name` in `namespace`.
    #[must_use]
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        Self {
            namespace: namespace.map(Arc::from),
            name: Arc::from(name),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)
    }
}

/// A key with its kind, as in a conflict or a journal line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// The kind, such as `ConfigMap`.
    pub kind: Arc<str>,
    /// The object of that kind.
    pub key: ObjectKey,
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.key)
    }
}

/// A `metadata.resourceVersion`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ResourceVersion {
    /// Kubernetes guarantees this since 1.35 and has always behaved so.
    Number(u64),
    /// From an aggregated API that behaves differently: usable for equality only.
    Opaque(Box<str>),
}

impl ResourceVersion {
    /// Parses a version as sent by the server.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Opaque(text.into()), Self::Number)
    }

    /// Whether a state at this version includes the write that made `other`. `None` between different opaque
    /// versions: the caller then uses a timer.
    #[must_use]
    pub fn includes(&self, other: &Self) -> Option<bool> {
        match (self, other) {
            (Self::Number(mine), Self::Number(theirs)) => Some(mine >= theirs),
            _ if self == other => Some(true),
            _ => None,
        }
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Opaque(text) => text.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_numbers_not_as_text() {
        let (nine, ten) = (ResourceVersion::parse("9"), ResourceVersion::parse("10"));
        assert_eq!(ten.includes(&nine), Some(true));
        assert_eq!(nine.includes(&ten), Some(false));
    }

    #[test]
    fn opaque_versions_are_only_ever_equal() {
        let (a, b) = (ResourceVersion::parse("a"), ResourceVersion::parse("b"));
        assert_eq!(a.includes(&a), Some(true));
        assert_eq!(a.includes(&b), None);
    }
}
