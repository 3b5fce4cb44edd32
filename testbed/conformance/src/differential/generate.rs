//! The seeded generator: which operation comes next. It never sees an answer, so the same seed
//! gives the same operations whatever the servers say.
//!
//! It keeps a rough idea of which objects should exist, only to make operations meet each other.

mod deletes;
mod malformed;
mod patches;
mod reads;
mod subresources;
mod writes;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::catalog::{Catalog, Kind, NAMESPACES};
use super::op::{Op, Verb};

const NAMES: [&str; 4] = ["one", "two", "three", "four"];

/// Managers that name themselves; few, so that no object collects more than ten.
const MANAGERS: [&str; 3] = ["alpha", "beta", "gamma"];

/// Produces operations.
#[derive(Debug)]
pub struct Generator<'a> {
    catalog: &'a Catalog,
    dice: Dice,
    likely: BTreeSet<(String, Option<String>, String)>,
    after: Vec<Op>,
}

/// Where an operation goes.
#[derive(Clone, Debug)]
struct Place {
    kind: usize,
    namespace: Option<String>,
    name: String,
}

impl Place {
    fn op(&self, verb: Verb) -> Op {
        Op::new(verb, self.kind, self.namespace.as_deref(), Some(&self.name))
    }
}

impl<'a> Generator<'a> {
    /// A generator of one seed.
    #[must_use]
    pub fn new(catalog: &'a Catalog, seed: u64) -> Self {
        let dice = Dice(fastrand::Rng::with_seed(seed));
        Self {
            catalog,
            dice,
            likely: BTreeSet::new(),
            after: Vec::new(),
        }
    }

    /// The next operation.
    pub fn next_op(&mut self) -> Op {
        if let Some(op) = self.after.pop() {
            return op;
        }
        let place = self.place();
        let kind = &self.catalog.kinds[place.kind];
        let id = (kind.storage(), place.namespace.clone(), place.name.clone());
        if !self.likely.contains(&id) && self.dice.chance(55) {
            self.likely.insert(id);
            return match self.dice.chance(60) {
                true => self.create(&place),
                false => self.apply(&place),
            };
        }
        if !kind.subs.is_empty() && self.dice.chance(20) {
            return self.subresource(&place);
        }
        match self.dice.below(100) {
            0..=4 => self.get(&place),
            5..=11 => self.list(&place),
            12..=18 => self.create(&place),
            19..=30 => self.update(&place),
            31..=42 => self.json_patch(&place),
            43..=54 => self.merge_patch(&place),
            55..=74 => self.apply(&place),
            75..=87 => self.strategic_patch(&place),
            88..=89 => self.malformed(&place),
            90..=91 => self.delete_collection(&place),
            _ => {
                let op = self.delete(&place);
                if !op.dry_run() {
                    self.likely.remove(&id);
                }
                op
            }
        }
    }

    fn place(&mut self) -> Place {
        let kind = self.dice.below(self.catalog.kinds.len());
        let named = &self.catalog.kinds[kind];
        let namespace = match self.dice.below(100) {
            _ if !named.namespaced => None,
            0 => Some("ns-missing"),
            1..=70 => Some(NAMESPACES[0]),
            _ => Some(NAMESPACES[1]),
        };
        let name = match self.dice.below(100) {
            _ if named.keep => self.dice.pick(&NAMESPACES),
            0 => "Bad_Name",
            1 => "never-there",
            _ => self.dice.pick(&NAMES),
        };
        Place {
            kind,
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        }
    }

    /// Fragments for one write: mostly good ones, now and then one that is refused.
    fn fragments(&mut self, kind: &Kind, status: bool, bad_percent: usize) -> Vec<Value> {
        let count = 1 + self.dice.below(3);
        let mut fragments: Vec<Value> = Vec::new();
        for _ in 0..count {
            let metadata = self.dice.chance(30);
            let menu = match (metadata, status) {
                (true, _) => &self.catalog.metadata.good,
                (false, true) => &kind.status_good,
                (false, false) => &kind.good,
            };
            fragments.push(self.dice.pick(menu));
        }
        // What must not come through, and what moves an object in and out of a selection.
        if !status && kind.status && self.dice.chance(8) {
            fragments.push(self.dice.pick(&kind.status_good));
        }
        if self.dice.chance(8) {
            let watched = self.dice.pick(&["yes", "yes", "no"]);
            fragments.push(json!({"metadata": {"labels": {"watched": watched}}}));
        }
        if self.dice.chance(bad_percent) {
            let metadata = self.dice.chance(30);
            let menu = match (metadata, status) {
                (true, _) => &self.catalog.metadata.bad,
                (false, true) => &kind.status_bad,
                (false, false) => &kind.bad,
            };
            fragments.push(self.dice.pick(menu));
        }
        fragments
    }

    /// Parameters any write may carry.
    fn write_params(&mut self, mut op: Op) -> Op {
        match self.dice.below(100) {
            0..=39 => op = op.param("fieldManager", self.dice.pick(&MANAGERS)),
            40 => op = op.param("fieldManager", "m".repeat(129)),
            41 => op = op.param("fieldManager", "not\u{7}printable"),
            _ => {}
        }
        match self.dice.below(100) {
            0..=9 => op = op.param("fieldValidation", "Strict"),
            10..=14 => op = op.param("fieldValidation", "Ignore"),
            15..=19 => op = op.param("fieldValidation", "Warn"),
            20 => op = op.param("fieldValidation", "Sometimes"),
            _ => {}
        }
        match self.dice.below(100) {
            0..=5 => op = op.param("dryRun", "All"),
            6 => op = op.param("dryRun", "Some"),
            _ => {}
        }
        op
    }
}

/// Seeded draws.
#[derive(Debug)]
pub(super) struct Dice(fastrand::Rng);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0.usize(..end)
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_operations() {
        let catalog = Catalog::load().expect("menus are valid");
        let run = |seed| {
            let mut generator = Generator::new(&catalog, seed);
            (0..500)
                .map(|_| format!("{:?}", generator.next_op()))
                .collect::<Vec<_>>()
        };
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
    }

    #[test]
    fn ten_thousand_operations_hold_five_hundred_of_each_patch_type() {
        let catalog = Catalog::load().expect("menus are valid");
        let mut generator = Generator::new(&catalog, 1);
        let verbs: Vec<Verb> = (0..10_000).map(|_| generator.next_op().verb).collect();
        for verb in [Verb::JsonPatch, Verb::MergePatch, Verb::Apply, Verb::StrategicPatch] {
            assert!(verbs.iter().filter(|each| **each == verb).count() >= 500, "{verb:?}");
        }
    }
}
