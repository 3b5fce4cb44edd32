//! Resource versions: comparable integers within one resource type, opaque where a server is odd.

use std::fmt;

/// A `metadata.resourceVersion`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ResourceVersion {
    /// What Kubernetes serves since 1.35 by promise and always did in fact.
    Number(u64),
    /// From an aggregated API that does otherwise: good for equality only.
    Opaque(Box<str>),
}

impl ResourceVersion {
    /// Reads a version as the server wrote it.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        text.parse()
            .map_or_else(|_| Self::Opaque(text.into()), Self::Number)
    }

    /// Whether a view at this version includes the write that made `other`. Unknown between opaque
    /// versions that differ: `None`, and the caller falls back to a timer.
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
