//! Rate limits per target: how many calls may be made, in which lane, and when.
//!
//! One budget per credential of a target: the API server, each external API. All objects share
//! it, so that one throttling response holds back all calls. The decisions are in the ledger, which is
//! pure; the [`RateLimiter`] is the ledger with a clock and with waiters. It does not send or retry
//! requests.
//!
//! The API server's budget comes with the engine. A budget for another API is a table and a call:
//!
//! ```
//! use std::time::Duration;
//!
//! use aplomb::Result;
//! use aplomb::ratelimit::{HETZNER, LimitConfig, LimitLane, LimitLaneConfig, RateLimiter};
//! use aplomb::clock::Clock;
//! use aplomb::leadership::fence::Fence;
//! use aplomb::telemetry::Telemetry;
//! use http::HeaderMap;
//! use tokio::time::Instant;
//!
//! const FAILOVER: LimitLane = LimitLane(0);
//!
//! fn cloud(telemetry: Telemetry) -> RateLimiter {
//!     let lane = |name: &str, reserve| LimitLaneConfig { name: name.to_owned(), reserve, slots: 2 };
//!     let config = LimitConfig {
//!         rate: 1.0,
//!         burst: 3600,
//!         concurrency: 10,
//!         lanes: vec![lane("failover", 100), lane("routine", 0)],
//!         header_formats: vec![HETZNER],
//!         ramp: Duration::from_secs(30),
//!         longest_wait: Duration::from_secs(3600),
//!     };
//!     RateLimiter::new("cloud", config, telemetry, Clock::system())
//! }
//!
//! async fn assign(cloud: &RateLimiter, fence: &Fence) -> Result<()> {
//!     let deadline = Instant::now() + Duration::from_secs(10);
//!     let assign = cloud.call(FAILOVER, deadline, fence, "assign", |permit| async move {
//!         let (status, headers) = send().await?;
//!         permit.record_answer(status, &headers);
//!         Ok(())
//!     });
//!     assign.await
//! }
//! # async fn send() -> Result<(u16, HeaderMap)> { Ok((200, HeaderMap::new())) }
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
//! # runtime.block_on(async {
//! #     assign(&cloud(Telemetry::default()), &Fence::always_open()).await.unwrap();
//! # });
//! ```

mod bucket;
mod config;
mod dialect;
mod effect;
mod flow;
mod learn;
mod ledger;
mod lesson;
mod permit;
mod place;
mod server;
mod shelf;
mod shell;
mod snapshot;

pub mod api;
pub mod single_flight;

pub use config::{LimitConfig, LimitLaneConfig};
pub use dialect::{
    CODER, GITHUB, HETZNER, HeaderFormat, HeaderNames, HintPrecedence, IETF, KUBERNETES, QuotaModel, ResetUnit,
};
pub use permit::Permit;
pub use server::ApiServerLimits;
pub use shelf::{InspectLimiter, LimiterRegistry};
pub use shell::RateLimiter;
pub use snapshot::{LimiterLaneSnapshot, LimiterSnapshot};

/// A lane of a budget: an index into its table of lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LimitLane(pub usize);
