//! What may be spent on a target, by whom, and when.
//!
//! One budget per credential of a target: the API server, each external API. All objects share
//! it, so that one refusal holds everybody back and nothing can walk around it. The decisions are
//! in the ledger, which is pure; the [`RateLimiter`] is the ledger with a clock and with waiters.
//! Nothing here sends a request, and nothing here tries one again.
//!
//! The API server's budget comes with the engine. One for another API is a table and a call:
//!
//! ```
//! use std::time::Duration;
//!
//! use aplomb::Result;
//! use aplomb::budget::{Budget, Config, HETZNER, Lane, LaneConfig};
//! use aplomb::clock::Clock;
//! use aplomb::fence::Fence;
//! use aplomb::telemetry::Telemetry;
//! use http::HeaderMap;
//! use tokio::time::Instant;
//!
//! const FAILOVER: Lane = Lane(0);
//!
//! fn cloud(telemetry: Telemetry) -> Budget {
//!     let lane = |name: &str, reserve| LaneConfig { name: name.to_owned(), reserve, slots: 2 };
//!     let config = Config {
//!         rate: 1.0,
//!         burst: 3600,
//!         concurrency: 10,
//!         lanes: vec![lane("failover", 100), lane("routine", 0)],
//!         dialects: vec![HETZNER],
//!         ramp: Duration::from_secs(30),
//!         longest_wait: Duration::from_secs(3600),
//!     };
//!     Budget::new("cloud", config, telemetry, Clock::system())
//! }
//!
//! async fn assign(cloud: &Budget, fence: &Fence) -> Result<()> {
//!     let deadline = Instant::now() + Duration::from_secs(10);
//!     let assign = cloud.call(FAILOVER, deadline, fence, "assign", |permit| async move {
//!         let (status, headers) = send().await?;
//!         permit.answered(status, &headers);
//!         Ok(())
//!     });
//!     assign.await
//! }
//! # async fn send() -> Result<(u16, HeaderMap)> { Ok((200, HeaderMap::new())) }
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
//! # runtime.block_on(async {
//! #     assign(&cloud(Telemetry::default()), &Fence::open()).await.unwrap();
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

pub use config::{LimitConfig, LimitLaneConfig};
pub use dialect::{
    CODER, GITHUB, HETZNER, HeaderFormat, HeaderNames, HintPrecedence, IETF, KUBERNETES,
    QuotaModel, ResetUnit,
};
pub use permit::Permit;
pub use server::ApiServerLimits;
pub use shelf::{InspectLimiter, LimiterRegistry};
pub use shell::RateLimiter;
pub use snapshot::{LimiterLaneSnapshot, LimiterSnapshot};

/// A lane of a budget: an index into its table of lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LimitLane(pub usize);
