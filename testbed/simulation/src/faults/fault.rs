//! The faults themselves, as data: what can go wrong with one request, and its name in the trace.
//!
//! How each is carried out is in `layer` (requests), `stream` (watches) and `stale` (old reads).

use std::fmt;
use std::time::Duration;

use aplomb_apiserver::call::Verb;

use super::target::Target;

/// What happens to a request that a rule or the sampler picked.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// It takes longer. Adds to any other fault.
    Latency(Latency),
    /// 409 `Conflict`; the server never sees the request.
    Conflict,
    /// A rival writes the object just before, so that the server itself answers 409 if the
    /// request carries a version, and merges if it does not.
    Rival,
    /// 429 as the overload filter sends it: text, not a Status.
    TooManyRequestsText {
        /// `Retry-After`, in seconds.
        retry_after: u32,
    },
    /// 429 as a Status.
    TooManyRequests {
        /// `Retry-After`, in seconds.
        retry_after: u32,
    },
    /// 500 as a Status without a reason.
    InternalError,
    /// 503 `ServiceUnavailable`.
    ServiceUnavailable,
    /// 504 `Timeout`. `committed`: the server did carry the request out.
    Timeout {
        /// Whether the write took effect.
        committed: bool,
    },
    /// The connection is reset. `committed`: the server did carry the request out.
    Reset {
        /// Whether the write took effect.
        committed: bool,
    },
    /// The right code, but only the first `keep` bytes of the body.
    Truncated {
        /// Bytes that arrive.
        keep: usize,
    },
    /// 401 `Unauthorized`, as with a token that was just rotated.
    Unauthorized,
    /// HTTP 410 `Expired`.
    Gone,
    /// Something goes wrong with the stream of a watch.
    Watch(WatchFault),
    /// An API server that lags behind answers.
    Stale(Stale),
}

impl Fault {
    /// Whether the fault makes sense for a request; others are left alone by it.
    #[must_use]
    pub fn applies_to(&self, target: &Target) -> bool {
        match self {
            Self::Watch(_) => target.verb == Verb::Watch,
            Self::Stale(_) => !target.is_write(),
            Self::Truncated { .. } => target.verb != Verb::Watch,
            Self::Conflict => target.is_write() && target.verb != Verb::Create,
            Self::Rival => target.name.is_some() && target.is_write(),
            _ => true,
        }
    }
}

/// What goes wrong with the stream of a watch. Times count from when it was opened.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchFault {
    /// Nothing arrives until this much later; then everything, in order.
    Held(Duration),
    /// Every event arrives this much later than it was sent.
    Lagged(Duration),
    /// The stream ends, properly, after this time.
    Dropped(Duration),
    /// After this time nothing arrives any more, and it does not end.
    BlackHoled(Duration),
    /// After this many events, half a line arrives and the stream ends.
    CutMidLine(usize),
    /// HTTP 200 and one ERROR event: 410 `Expired`.
    Expired,
}

/// An API server whose view stands still at an older revision. Writes go through, as they would:
/// they end in the same etcd.
///
/// It is made of requests any server answers (a list at an exact version), so it also works in
/// front of the real one, as long as `revision` is not compacted there.
#[derive(Clone, Debug, PartialEq)]
pub struct Stale {
    /// What it has seen.
    pub revision: u64,
    /// When its watches catch up, since the beginning of the trace; `None` is never.
    pub until: Option<Duration>,
    /// Which reads are old.
    pub reads: StaleReads,
}

/// Which reads a stale server answers from its old view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum StaleReads {
    /// All of them.
    #[default]
    All,
    /// Only those that may be answered from a cache (`resourceVersion=0`, and watches). The real
    /// server keeps this promise for reads without a version.
    CacheOnly,
}

/// How long a request takes.
#[derive(Clone, Debug, PartialEq)]
pub enum Latency {
    /// Always the same.
    Fixed(Duration),
    /// Anything between the two, equally likely.
    Uniform(Duration, Duration),
    /// Mostly short, with a tail: exponentially distributed around this mean.
    Exponential(Duration),
    /// A fast and a slow path: `slow` with this probability, `fast` otherwise.
    Bimodal {
        /// The usual time.
        fast: Duration,
        /// The unlucky time.
        slow: Duration,
        /// How often it is unlucky, 0 to 1.
        probability: f64,
    },
}

impl Latency {
    /// Draws one delay.
    #[must_use]
    pub fn draw(&self, rng: &mut fastrand::Rng) -> Duration {
        match self {
            Self::Fixed(delay) => *delay,
            Self::Uniform(low, high) => *low + high.saturating_sub(*low).mul_f64(rng.f64()),
            // 1 - x is never 0, so the logarithm is finite.
            Self::Exponential(mean) => mean.mul_f64(-(1.0 - rng.f64()).ln()),
            Self::Bimodal {
                fast,
                slow,
                probability,
            } => {
                if rng.f64() < *probability {
                    *slow
                } else {
                    *fast
                }
            }
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latency(_) => f.write_str("latency"),
            Self::Conflict => f.write_str("conflict"),
            Self::Rival => f.write_str("rival"),
            Self::TooManyRequestsText { retry_after } => write!(f, "429-text({retry_after})"),
            Self::TooManyRequests { retry_after } => write!(f, "429-json({retry_after})"),
            Self::InternalError => f.write_str("500"),
            Self::ServiceUnavailable => f.write_str("503"),
            Self::Timeout { committed } => write!(f, "504({})", commit_word(*committed)),
            Self::Reset { committed } => write!(f, "reset({})", commit_word(*committed)),
            Self::Truncated { keep } => write!(f, "truncated({keep})"),
            Self::Unauthorized => f.write_str("401"),
            Self::Gone => f.write_str("410"),
            Self::Watch(fault) => write!(f, "watch-{fault}"),
            Self::Stale(stale) => write!(f, "stale({})", stale.revision),
        }
    }
}

fn commit_word(committed: bool) -> &'static str {
    if committed { "committed" } else { "not-committed" }
}

impl fmt::Display for WatchFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held(time) => write!(f, "held({time:?})"),
            Self::Lagged(time) => write!(f, "lagged({time:?})"),
            Self::Dropped(time) => write!(f, "dropped({time:?})"),
            Self::BlackHoled(time) => write!(f, "black-holed({time:?})"),
            Self::CutMidLine(events) => write!(f, "cut-mid-line({events})"),
            Self::Expired => f.write_str("expired"),
        }
    }
}
