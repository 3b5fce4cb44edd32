//! Second opinions: before a gateway that one replica cannot reach is replaced, the reports of the
//! other replicas are checked.
//!
//! Every replica probes the nodes and publishes the reachable ones in its own Lease. If a replica's
//! own node is cut off, its failures are disputed, and it moves nothing. Reports are advisory:
//! nothing in this module may elect a node or change the floating IP.

mod replica;
mod report;

pub use self::replica::{PeerReporter, ProbeTargetsFn, controller, lease_scope};
pub use self::report::{ReachabilityReport, is_disputed, read_reports};
