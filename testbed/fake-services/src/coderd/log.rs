//! What the log says of a request. Tokens and keys never get here.

use jiff::Timestamp;
use serde::Serialize;

/// One request.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct Entry {
    /// Counts from 1.
    pub n: u64,
    /// When it arrived.
    pub time: Timestamp,
    /// The product in its User-Agent, else its identity; for noise, its name.
    pub client: String,
    /// Name of the user whose token it had; none had a valid one.
    pub user: Option<String>,
    /// Whom the limiter counts: the id of a user, or an address.
    pub identity: String,
    /// HTTP method.
    pub method: String,
    /// Path without the query.
    pub path: String,
    /// What came after the question mark.
    pub query: String,
    /// What the header `x-aplomb-lane` said.
    pub lane: Option<String>,
    /// Whether it asked to pass the limiter by.
    pub bypass: bool,
    /// Whether the limiter counted it.
    pub counted: bool,
    /// Status of the answer; none was lost on the way.
    pub status: Option<u16>,
    /// What the limiter had left afterwards; none did not say.
    pub remaining: Option<i64>,
    /// The fault that met it.
    pub fault: Option<u64>,
}
