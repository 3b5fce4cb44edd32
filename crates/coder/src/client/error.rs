//! What a call that did not succeed has told, by class, with everything secret taken out before it is
//! kept.

use std::fmt;

use http::HeaderMap;

/// What a refusal means for whoever asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// 400, 422 and any other 4xx: the request is wrong and stays so until the spec changes.
    Invalid,
    /// 401: the token is not taken.
    Token,
    /// 403: the token may not do this, or the server has no licence for it.
    Forbidden,
    /// 404: it is not there, or not to be seen by this token.
    Missing,
    /// 409: there is one of this name.
    Exists,
    /// 412 or 428, in answer to the bypass header only.
    BypassRefused,
    /// 429: the rate limit.
    Limited,
    /// 5xx, and a redirect, which nobody may follow with a token.
    Server,
    /// No answer came, or one that cannot be read: it may have happened all the same.
    NoAnswer,
}

/// A call that did not succeed. Holds no part of a token or key.
#[derive(Clone)]
pub struct CallError {
    /// What it means.
    pub class: Class,
    /// The status of the answer, if one came.
    pub status: Option<u16>,
    /// The call, as metrics and messages name it: `create key`.
    pub endpoint: &'static str,
    /// For people.
    pub message: String,
    /// The headers of the answer: they speak of the rate limit, on a refusal too.
    pub headers: HeaderMap,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.endpoint, self.message)
    }
}

/// Without the headers: what a gateway puts there is nobody's to vouch for.
impl fmt::Debug for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallError")
            .field("class", &self.class)
            .field("endpoint", &self.endpoint)
            .field("status", &self.status)
            .field("message", &self.message)
            .finish_non_exhaustive()
    }
}

impl std::error::Error for CallError {}
