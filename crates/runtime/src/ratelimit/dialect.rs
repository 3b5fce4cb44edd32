//! How targets speak of their limits: a table. A new target is a new entry, not new code.

use std::time::Duration;

/// How one target speaks of its limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeaderFormat {
    /// What logs call it.
    pub name: &'static str,
    /// The headers that say on every answer what is left, if it sends any.
    pub quota: Option<HeaderNames>,
    /// Which hint counts when a refusal carries both.
    pub precedence: HintPrecedence,
    /// What a hint may fall short by: a fraction of a second that was cut off.
    pub slack: Duration,
}

/// The headers that say what is left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeaderNames {
    /// How much there is at all.
    pub limit: &'static str,
    /// How much of it is left.
    pub remaining: &'static str,
    /// When it is there again.
    pub reset: &'static str,
    /// How that time is written.
    pub unit: ResetUnit,
    /// What happens at that time.
    pub quota: QuotaModel,
}

/// How a time is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetUnit {
    /// Seconds from now.
    Seconds,
    /// Seconds since 1970. Read against the answer's own `Date`, so that clocks may differ.
    Epoch,
    /// An HTTP date.
    Date,
}

/// What a reset time means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaModel {
    /// A window ends and the whole limit is there again: nothing more before it.
    Window,
    /// A bucket that fills steadily will be full: one call is there again long before.
    Leaky,
}

/// Which hint counts when a refusal carries both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintPrecedence {
    /// `Retry-After`, as RFC 9110 has it.
    RetryAfter,
    /// The reset time, where `Retry-After` is only a loose bound.
    Reset,
}

/// The API server: `Retry-After` and nothing else.
pub const KUBERNETES: HeaderFormat = HeaderFormat {
    name: "kubernetes",
    quota: None,
    precedence: HintPrecedence::RetryAfter,
    slack: Duration::ZERO,
};

/// Hetzner Cloud: 3,600 an hour in a bucket that fills by one a second; the reset time is when it
/// is full, so a refusal costs about a second and not an hour.
pub const HETZNER: HeaderFormat = HeaderFormat {
    name: "hetzner",
    quota: Some(HeaderNames {
        limit: "ratelimit-limit",
        remaining: "ratelimit-remaining",
        reset: "ratelimit-reset",
        unit: ResetUnit::Epoch,
        quota: QuotaModel::Leaky,
    }),
    precedence: HintPrecedence::RetryAfter,
    slack: Duration::ZERO,
};

/// coderd: windows of a minute. `Retry-After` is always the whole window; the reset time is the
/// end of this one with its fraction cut off.
pub const CODER: HeaderFormat = HeaderFormat {
    name: "coder",
    quota: Some(X_RATE_LIMIT),
    precedence: HintPrecedence::Reset,
    slack: Duration::from_secs(1),
};

/// GitHub and those who copied it.
pub const GITHUB: HeaderFormat = HeaderFormat {
    name: "github",
    quota: Some(X_RATE_LIMIT),
    precedence: HintPrecedence::RetryAfter,
    slack: Duration::from_secs(1),
};

/// The IETF's draft headers, with seconds from now.
pub const IETF: HeaderFormat = HeaderFormat {
    name: "ietf",
    quota: Some(HeaderNames {
        limit: "ratelimit-limit",
        remaining: "ratelimit-remaining",
        reset: "ratelimit-reset",
        unit: ResetUnit::Seconds,
        quota: QuotaModel::Window,
    }),
    precedence: HintPrecedence::RetryAfter,
    slack: Duration::ZERO,
};

const X_RATE_LIMIT: HeaderNames = HeaderNames {
    limit: "x-ratelimit-limit",
    remaining: "x-ratelimit-remaining",
    reset: "x-ratelimit-reset",
    unit: ResetUnit::Epoch,
    quota: QuotaModel::Window,
};
