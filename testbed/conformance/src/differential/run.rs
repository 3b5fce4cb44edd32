//! The run itself: the same operations on both servers, each answer compared, lists and watches
//! compared at barriers.

use std::collections::BTreeSet;

use anyhow::Result;
use serde_json::{Value, json};

use super::catalog::{Catalog, NAMESPACES};
use super::diff::diff;
use super::generate::Generator;
use super::op::{Op, Verb, Wire};
use super::peer::Peer;
use super::report::Report;
use super::side::{Log, Side};
use super::track::Key;
use super::watches::Selection;

/// Operations between two barriers.
const BARRIER_EVERY: usize = 500;

/// Incarnation numbers of healed objects start here, out of reach of counted ones.
const HEALED: u32 = 1_000_000;

struct Run<'a> {
    catalog: &'a Catalog,
    real: Side,
    other: Side,
    report: Report,
    unsettled: BTreeSet<Key>,
    on_difference: &'a mut dyn FnMut(&str),
}

/// What to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Gives the operations.
    pub seed: u64,
    /// How many of them.
    pub ops: usize,
    /// On what.
    pub catalog: Catalog,
}

/// Carries out the plan on both servers. Each new shape of difference is told
/// to `on_difference` at once.
///
/// # Errors
/// A server that cannot be prepared, or a connection that broke.
pub async fn run(plan: &Plan, real: Peer, other: Peer, on_difference: &mut dyn FnMut(&str)) -> Result<Report> {
    let Plan { seed, ops, catalog } = plan;
    let (real, other) = tokio::try_join!(Side::prepare(catalog, real), Side::prepare(catalog, other))?;
    let report = Report {
        seed: *seed,
        ..Report::default()
    };
    let unsettled = BTreeSet::new();
    let mut run = Run {
        catalog,
        real,
        other,
        report,
        unsettled,
        on_difference,
    };
    run.barrier(0, 0).await?;
    let mut generator = Generator::new(catalog, *seed);
    for number in 0..*ops {
        let op = generator.next_op();
        run.step(number, &op, true).await?;
        if (number + 1) % BARRIER_EVERY == 0 || number + 1 == *ops {
            run.lists(number).await?;
            run.barrier(number, 1 + number / BARRIER_EVERY).await?;
        }
    }
    Ok(run.report)
}

impl Run<'_> {
    async fn step(&mut self, number: usize, op: &Op, counted: bool) -> Result<()> {
        let (real, other) = tokio::try_join!(
            self.real.perform(self.catalog, op),
            self.other.perform(self.catalog, op)
        )?;
        let kind = &self.catalog.kinds[op.kind];
        let verb = op.verb.as_str();
        if counted {
            self.report.count(verb, &kind.label(), real.answer.code);
        }
        if real.answer.code == 0 && other.answer.code != 0 {
            return self.heal(op).await;
        }
        let part = match op.sub {
            Some(sub) => format!("/{sub}"),
            None if op.status => "/status".to_owned(),
            None => String::new(),
        };
        let subject = format!("{verb} {}{part}", kind.label());
        if self.compare(number, &subject, &real.wire, &real.masked, &other.masked) {
            self.heal(op).await?;
        }
        Ok(())
    }

    /// Whether they differ; a first of its shape is told in full.
    fn compare(&mut self, number: usize, subject: &str, wire: &Wire, real: &Value, other: &Value) -> bool {
        let lines = diff(real, other);
        if self.report.compared(number, subject, wire, [real, other], &lines) {
            let shown: Vec<String> = lines.iter().take(12).map(ToString::to_string).collect();
            (self.on_difference)(&format!(
                "operation {number}: {subject}\n{} {}\n{}\nreal answered {}\nbox answered  {}\n{}\n\
                 again with: differential --seed {} --ops {}\n",
                wire.method,
                wire.target,
                wire.body,
                real,
                other,
                shown.join("\n"),
                self.report.seed,
                number + 1
            ));
        }
        !lines.is_empty()
    }

    async fn heal(&mut self, op: &Op) -> Result<()> {
        let kind = &self.catalog.kinds[op.kind];
        let keys: Vec<Key> = match (op.verb, op.key(kind)) {
            (Verb::Get | Verb::List, _) => return Ok(()),
            (_, Some(key)) => vec![key],
            (_, None) => {
                let namespace = op.namespace.as_deref().unwrap_or("");
                let names = ["one", "two", "three", "four"];
                names.map(|name| Key::new(&kind.storage(), namespace, name)).to_vec()
            }
        };
        let round = HEALED + u32::try_from(self.report.failed).unwrap_or(u32::MAX - HEALED);
        for key in keys {
            tokio::try_join!(
                self.real.heal(self.catalog, op, &key, round),
                self.other.heal(self.catalog, op, &key, round)
            )?;
            self.unsettled.insert(key);
        }
        Ok(())
    }

    /// Compares what both servers hold of every kind.
    async fn lists(&mut self, number: usize) -> Result<()> {
        for index in 0..self.catalog.kinds.len() {
            let kind = &self.catalog.kinds[index];
            if kind.keep {
                continue;
            }
            let namespaces: Vec<Option<&str>> = if kind.namespaced {
                NAMESPACES.map(Some).to_vec()
            } else {
                vec![None]
            };
            for namespace in namespaces {
                self.step(number, &Op::new(Verb::List, index, namespace, None), false)
                    .await?;
            }
        }
        Ok(())
    }

    /// Compares what the watches have shown since the last barrier.
    async fn barrier(&mut self, number: usize, marker: usize) -> Result<()> {
        tokio::try_join!(
            self.real.mark(self.catalog, marker),
            self.other.mark(self.catalog, marker)
        )?;
        let real = self.real.logs(self.catalog, marker, &self.unsettled).await?;
        let other = self.other.logs(self.catalog, marker, &self.unsettled).await?;
        self.unsettled.clear();
        let watched: Vec<(usize, Selection)> = self.real.watched().collect();
        for ((index, selection), (real, other)) in watched.into_iter().zip(real.iter().zip(&other)) {
            let kind = &self.catalog.kinds[index];
            let subject = format!("watch {}{}", kind.label(), selection.as_str());
            let target = format!("{}?watch=true", kind.collection(None));
            let wire = Wire {
                method: "GET",
                target,
                headers: Vec::new(),
                body: String::new(),
            };
            let (real, other) = first_unequal(real, other);
            self.compare(number, &subject, &wire, &real, &other);
        }
        Ok(())
    }
}

/// The first events where two logs part, with the lengths; equal values when they do not.
fn first_unequal(real: &Log, other: &Log) -> (Value, Value) {
    let at = (0..real.len().max(other.len())).find(|at| real.get(*at) != other.get(*at));
    let side = |log: &Log| match at {
        Some(at) => json!({
            "events": log.len(),
            "at": at,
            "event": log.get(at).map(|(_, event)| event.clone()),
        }),
        None => json!({"events": log.len()}),
    };
    (side(real), side(other))
}
