//! Kubernetes' own end-to-end suite on the box and on the real server: the same specs, JSON and
//! protobuf, and what passed where.
//!
//! Only specs that need nothing but an API server and its controllers are selected. This module
//! starts and counts; what a spec checks is the suite's business.

mod junit;
mod suite;

use std::fmt;
use std::time::Duration;

pub use junit::Counts;
pub use suite::{Run, node, run};

/// How a client of the suite writes and reads built-in kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Encoding {
    /// `application/json`
    Json,
    /// `application/vnd.kubernetes.protobuf`, what Go clients send unless told otherwise
    Protobuf,
}

impl Encoding {
    /// Its media type.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Json => "json",
            Self::Protobuf => "protobuf",
        })
    }
}

/// What one run of the suite gave.
#[derive(Debug)]
pub struct Outcome {
    /// `box` or `real`.
    pub server: &'static str,
    /// How the suite's clients spoke.
    pub encoding: Encoding,
    /// What passed and what failed.
    pub counts: Counts,
    /// How long it took.
    pub took: Duration,
}

/// The specs that pass without nodes, webhooks or minutes of compaction.
pub const FOCUS: &str = concat!(
    r"\[sig-api-machinery\] (API Streaming|AggregatedDiscovery|CRDValidationRatcheting|",
    "CustomResourceDefinition|CustomResourcePublishOpenAPI|CustomResourceValidationRules|Discovery|",
    "FieldValidation|Garbage collector should (not be blocked|support cascading)|Namespaces|",
    "OpenAPIV3 should publish|Server request timeout|ServerSideApply|Servers with support|",
    "ValidatingAdmissionPolicy|Watchers|client-go should|health handlers|server version|",
    "Generated clientset)",
);

/// Those among them that need running pods, a second server or hours.
pub const SKIP: &str = "Flaky|Generated clientset should create pods|compacted away|type check|\
     all pods are removed|Disruptive|ComprehensiveNamespaceDraining|delete fast|\
     Aggregated APIServer|CBOR";
