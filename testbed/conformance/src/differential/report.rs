//! What a run found: counts by verb, kind and status, and the differences by shape.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

use super::diff::{Line, shape};
use super::op::Wire;

/// Examples kept of each shape.
const EXAMPLES: usize = 3;

/// One difference.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// Number of the operation, from 0.
    pub op: usize,
    /// Verb and kind, or which watch or list.
    pub subject: String,
    /// What the real server was sent.
    pub request: String,
    /// Its answer, masked.
    pub real: Value,
    /// The box's, masked.
    #[serde(rename = "box")]
    pub other: Value,
    /// Where they differ.
    pub lines: Vec<String>,
}

/// Everything a run found.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// The seed that gives this run again.
    pub seed: u64,
    /// Operations carried out.
    pub operations: usize,
    /// Operations the real server refused.
    pub refused: usize,
    /// Operations by type of patch.
    pub patches: BTreeMap<String, usize>,
    /// verb -> kind -> status code -> operations.
    pub counts: BTreeMap<String, BTreeMap<String, BTreeMap<u16, usize>>>,
    /// Comparisons that found both servers equal.
    pub passed: usize,
    /// Comparisons that did not.
    pub failed: usize,
    /// How often each shape of difference was seen.
    pub shapes: BTreeMap<String, usize>,
    /// The first few of each shape.
    pub differences: Vec<Difference>,
}

impl Report {
    /// Counts one operation by the real server's answer.
    pub fn count(&mut self, verb: &str, kind: &str, code: u16) {
        self.operations += 1;
        if code >= 400 {
            self.refused += 1;
        }
        if verb.ends_with("patch") || verb == "apply" {
            *self.patches.entry(verb.to_owned()).or_default() += 1;
        }
        let kinds = self.counts.entry(verb.to_owned()).or_default();
        *kinds.entry(kind.to_owned()).or_default().entry(code).or_default() += 1;
    }

    /// Books a comparison; `true` when it is the first of its shape.
    pub fn compared(&mut self, op: usize, subject: &str, wire: &Wire, pair: [&Value; 2], lines: &[Line]) -> bool {
        if lines.is_empty() {
            self.passed += 1;
            return false;
        }
        self.failed += 1;
        let seen = self.shapes.entry(format!("{subject} {}", shape(lines))).or_default();
        *seen += 1;
        if *seen <= EXAMPLES {
            self.differences.push(Difference {
                op,
                subject: subject.to_owned(),
                request: format!("{} {} {}", wire.method, wire.target, wire.body),
                real: pair[0].clone(),
                other: pair[1].clone(),
                lines: lines.iter().map(ToString::to_string).collect(),
            });
        }
        *seen == 1
    }

    /// Share of operations the real server refused, in percent.
    #[must_use]
    pub fn refused_percent(&self) -> usize {
        self.refused * 100 / self.operations.max(1)
    }

    /// Verb by kind by status, and the sums.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out = String::new();
        for (verb, kinds) in &self.counts {
            let total: usize = kinds.values().flat_map(BTreeMap::values).sum();
            let _ = writeln!(out, "{verb} ({total})");
            for (kind, codes) in kinds {
                let codes: Vec<String> = codes.iter().map(|(code, count)| format!("{code}:{count}")).collect();
                let _ = writeln!(out, "  {kind:<22} {}", codes.join("  "));
            }
        }
        let _ = writeln!(
            out,
            "{} operations, {} refused by the real server ({} %), patches {:?}",
            self.operations,
            self.refused,
            self.refused_percent(),
            self.patches
        );
        if !self.shapes.is_empty() {
            let _ = writeln!(out, "differences by shape:");
        }
        let mut shapes: Vec<_> = self.shapes.iter().collect();
        shapes.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (shape, count) in shapes {
            let _ = writeln!(out, "{count:>6}  {shape}");
        }
        out
    }
}
