//! The second vantage: before a gateway that one replica cannot reach is replaced, the others are asked.
//!
//! Every replica probes, and says in a Lease of its own which nodes it reaches. A replica whose own node
//! is cut off then finds its failures disputed, and moves nothing. What is said here is advice: nothing
//! in this module may choose a node or touch the floating IP.

mod replica;
mod report;

pub use self::replica::{PeerReporter, ProbeTargetsFn, controller, lease_scope};
pub use self::report::{ReachabilityReport, is_disputed, read_reports};
