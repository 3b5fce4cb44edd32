//! What the log says of a request, with what it found in the bucket. Tokens never get here.

use jiff::Timestamp;
use serde::Serialize;

/// One request.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct Entry {
    /// Counts from 1.
    pub n: u64,
    /// When it arrived.
    pub time: Timestamp,
    /// The product in its User-Agent, else the label of its token; for noise, its name.
    pub client: String,
    /// Which token, as `token-1` for the first line of the token file; none is an unknown one.
    pub token: Option<String>,
    /// Which bucket paid.
    pub bucket: String,
    /// HTTP method.
    pub method: String,
    /// Path without the query.
    pub path: String,
    /// What came after the question mark.
    pub query: String,
    /// Status of the answer; none was lost on the way.
    pub status: Option<u16>,
    /// `error.code` of a refusal.
    pub code: Option<String>,
    /// What was left in the bucket afterwards.
    pub remaining: u64,
    /// What the header `x-aplomb-lane` said.
    pub lane: Option<String>,
    /// The fault that met it.
    pub fault: Option<u64>,
}
