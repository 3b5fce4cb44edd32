//! Resource versions: comparable integers within one resource type, or opaque texts from unusual servers.

use std::fmt;

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
