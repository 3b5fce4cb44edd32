//! Levels and versions: how much is forbidden, and as of when.
//!
//! Pure. Where they are asked for is in `policy`, what they forbid in `checks`.

use std::fmt;

/// How much is forbidden; each level forbids more than the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    #[default]
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "privileged" => Ok(Self::Privileged),
            "baseline" => Ok(Self::Baseline),
            "restricted" => Ok(Self::Restricted),
            _ => Err("must be one of privileged, baseline, restricted"),
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        })
    }
}

/// As of which Kubernetes a level is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Version {
    /// `v1.` and this.
    Minor(i64),
    #[default]
    Latest,
}

impl Version {
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        if text == "latest" {
            return Ok(Self::Latest);
        }
        let digits = text.strip_prefix("v1.").filter(|digits| {
            let leads_with_zero = digits.len() > 1 && digits.starts_with('0');
            digits.bytes().all(|byte| byte.is_ascii_digit()) && !leads_with_zero
        });
        match digits.and_then(|digits| digits.parse().ok()) {
            Some(minor) => Ok(Self::Minor(minor)),
            None => Err("must be \"latest\" or \"v1.x\""),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Minor(minor) => write!(f, "v1.{minor}"),
            Self::Latest => f.write_str("latest"),
        }
    }
}

/// A level as of a version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Standard {
    pub(super) level: Level,
    pub(super) version: Version,
}

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.level, self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers_without_decoration() {
        for good in ["v1.0", "v1.9", "v1.10", "v1.9223372036854775807"] {
            assert_eq!(Version::parse(good).map(|it| it.to_string()), Ok(good.into()));
        }
        for bad in ["v1.", "v1.00", "1.2", "v1.+2", "v1.2.3", "v1.9223372036854775808"] {
            assert!(Version::parse(bad).is_err(), "{bad}");
        }
    }
}
