//! What may be spent on a target, by whom, and when.
//!
//! One budget per credential of a target: the API server, each external API. All objects share
//! it, so that one refusal holds everybody back and nothing can walk around it. The decisions are
//! in the ledger, which is pure; the [`Budget`] is the ledger with a clock and with waiters.
//! Nothing here sends a request, and nothing here tries one again.

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
mod shell;
mod snapshot;

pub mod api;

pub use config::{Config, LaneConfig};
pub use dialect::{
    CODER, Dialect, GITHUB, HETZNER, IETF, KUBERNETES, Names, Precedence, Quota, Unit,
};
pub use permit::Permit;
pub use shell::Budget;
pub use snapshot::{LaneSnapshot, Snapshot};

/// A lane of a budget: an index into its table of lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(pub usize);
