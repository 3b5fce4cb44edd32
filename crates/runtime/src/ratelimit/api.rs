//! The lanes of the API server's budget, and its defaults for a controller.
//!
//! API Priority and Fairness protects the server. This budget makes sure that a lease is renewed while
//! other calls wait, and that one throttling response holds back all callers at once.

use std::time::Duration;

use super::{KUBERNETES, LimitConfig, LimitLane, LimitLaneConfig};

/// Leases: nothing else may wait longer than a term.
pub const LEASE: LimitLane = LimitLane(0);
/// Status writes: what people look at.
pub const STATUS: LimitLane = LimitLane(1);
/// Everything else a run does.
pub const WORK: LimitLane = LimitLane(2);
/// Lists and watches.
pub const BACKGROUND: LimitLane = LimitLane(3);
/// Events, the first thing to be given up.
pub const EVENTS: LimitLane = LimitLane(4);

impl LimitConfig {
    /// The budget of an API server.
    #[must_use]
    pub fn api_server() -> Self {
        let lane = |name: &str, reserve, slots| LimitLaneConfig {
            name: name.to_owned(),
            reserve,
            slots,
        };
        Self {
            rate: 300.0,
            burst: 600,
            concurrency: 100,
            lanes: vec![
                lane("lease", 10, 4),
                lane("status", 30, 10),
                lane("work", 0, 0),
                lane("background", 10, 10),
                lane("events", 0, 1),
            ],
            header_formats: vec![KUBERNETES],
            ramp: Duration::from_secs(5),
            longest_wait: Duration::from_secs(3600),
        }
    }
}
