//! Metrics of writes, of skipped writes, and of conflicts.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tracing::{debug, warn};

use super::{MetricFamilies, TelemetryEvent};
use crate::key::ObjectRef;

/// Metrics of writes, of skipped writes, and of conflicts.
#[derive(Debug, Default)]
pub struct WriteMetrics {
    writes: Family<WriteLabels, Counter>,
    conflicts: Family<ConflictLabels, Counter>,
    stale_effects: Family<StaleLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabels {
    kind: String,
    verb: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConflictLabels {
    kind: String,
    manager: String,
    winner: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StaleLabels {
    target: String,
}

impl WriteMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "aplomb_writes",
            "Writes by kind, verb and result: written, suppressed, conflict, failed",
            self.writes.clone(),
        );
        registry.register(
            "aplomb_conflicts",
            "Conflicts by kind, by our field manager and by the manager that was first",
            self.conflicts.clone(),
        );
        registry.register(
            "aplomb_stale_effects",
            "Effects that may have landed after the lease was lost, by target",
            self.stale_effects.clone(),
        );
    }

    /// How many writes of `kind` by `verb` had this `result`.
    #[must_use]
    pub fn writes(&self, kind: &str, verb: &'static str, result: WriteResult) -> u64 {
        let labels = WriteLabels {
            kind: kind.to_owned(),
            verb,
            result: result.as_str(),
        };
        self.writes.get(&labels).map_or(0, |counter| counter.get())
    }

    /// How many effects on `target` may have landed after the lease was lost.
    #[must_use]
    pub fn stale_effects(&self, target: &str) -> u64 {
        let labels = StaleLabels {
            target: target.to_owned(),
        };
        self.stale_effects.get(&labels).map_or(0, |counter| counter.get())
    }

    /// How many conflicts `manager` lost to `winner` on `kind`.
    #[must_use]
    pub fn conflicts(&self, kind: &str, manager: &str, winner: &str) -> u64 {
        let labels = ConflictLabels {
            kind: kind.to_owned(),
            manager: manager.to_owned(),
            winner: winner.to_owned(),
        };
        self.conflicts.get(&labels).map_or(0, |counter| counter.get())
    }
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteResult {
    /// The server accepted it.
    Written,
    /// Nothing was sent, because the object was equal already.
    Suppressed,
    /// Another writer was first.
    Conflict,
    /// The server rejected it, or did not respond.
    Failed,
}

impl WriteResult {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Suppressed => "suppressed",
            Self::Conflict => "conflict",
            Self::Failed => "failed",
        }
    }
}

/// A write ended.
#[derive(Debug)]
pub(crate) struct WriteEnded<'a> {
    /// The written object.
    pub(crate) object: &'a ObjectRef,
    /// `apply`, `status`, `delete` or `finalizer`.
    pub(crate) verb: &'static str,
    /// Its result.
    pub(crate) result: WriteResult,
}

impl TelemetryEvent for WriteEnded<'_> {
    fn emit(self, families: &MetricFamilies) {
        let labels = WriteLabels {
            kind: self.object.kind.to_string(),
            verb: self.verb,
            result: self.result.as_str(),
        };
        families.writes.writes.get_or_create(&labels).inc();
        debug!(object = %self.object, verb = self.verb, result = self.result.as_str(), "write");
    }
}

/// A write of ours lost a conflict, and the winner is now known.
#[derive(Debug)]
pub(crate) struct ConflictLost<'a> {
    /// The written object.
    pub(crate) object: &'a ObjectRef,
    /// Our field manager.
    pub(crate) manager: &'a str,
    /// The field manager that was first, if the object shows it.
    pub(crate) winner: Option<&'a str>,
}

impl TelemetryEvent for ConflictLost<'_> {
    fn emit(self, families: &MetricFamilies) {
        let winner = self.winner.unwrap_or("unknown");
        let labels = ConflictLabels {
            kind: self.object.kind.to_string(),
            manager: self.manager.to_owned(),
            winner: winner.to_owned(),
        };
        families.writes.conflicts.get_or_create(&labels).inc();
        debug!(object = %self.object, manager = self.manager, winner, "conflict");
    }
}

/// An effect may have landed after the lease was lost.
#[derive(Debug)]
pub(crate) struct StaleEffect<'a> {
    /// The system it was sent to, such as `apiserver`.
    pub(crate) target: &'a str,
    /// The kind of effect and its object.
    pub(crate) what: &'a str,
}

impl TelemetryEvent for StaleEffect<'_> {
    fn emit(self, families: &MetricFamilies) {
        let labels = StaleLabels {
            target: self.target.to_owned(),
        };
        families.writes.stale_effects.get_or_create(&labels).inc();
        let Self { target, what } = self;
        warn!(target, what, "An effect may have landed after the lease was lost");
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;
    use crate::key::ObjectKey;
    use crate::telemetry::Telemetry;

    #[test]
    fn write_results_are_counted_under_public_names() {
        let telemetry = Telemetry::default();
        let object = &ObjectRef {
            kind: "Page".into(),
            key: ObjectKey::new(Some("team"), "front"),
        };
        telemetry.emit(WriteEnded {
            object,
            verb: "status",
            result: WriteResult::Suppressed,
        });
        telemetry.emit(ConflictLost {
            object,
            manager: "ours",
            winner: None,
        });
        telemetry.emit(StaleEffect {
            target: "apiserver",
            what: "status of Page team/front",
        });
        let mut registry = Registry::default();
        telemetry.register(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).expect("text");
        for line in [
            r#"aplomb_writes_total{kind="Page",verb="status",result="suppressed"} 1"#,
            r#"aplomb_conflicts_total{kind="Page",manager="ours",winner="unknown"} 1"#,
            r#"aplomb_stale_effects_total{target="apiserver"} 1"#,
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
    }
}
