//! What was promised: every object's last acknowledged state, the write that is under way, and what
//! each version was used for.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};

use super::kinds::{Kind, Known, Listed};

/// One object.
#[derive(Clone, Debug, Default)]
pub(super) struct Slot {
    /// As it was acknowledged; `None` when it does not exist.
    pub(super) acknowledged: Option<Known>,
    /// The write that is under way.
    pub(super) pending: Option<Pending>,
}

/// A write that was sent and not answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    /// What it writes; `None` for a deletion.
    number: Option<u64>,
    /// The newest version anybody had seen then; its own must be newer.
    after: u64,
}

/// The promises made on one directory.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    slots: BTreeMap<(Kind, String), Slot>,
    /// Object and number of each version; no number is a deletion.
    used: BTreeMap<u64, (Kind, String, Option<u64>)>,
    /// Versions of acknowledged writes by kind, which watchers must all see.
    promised: BTreeMap<Kind, BTreeSet<u64>>,
    numbers: u64,
    pub(super) acknowledged: usize,
    pub(super) cut: usize,
}

impl Ledger {
    /// A number for a write.
    pub(super) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub(super) fn slot(&self, kind: Kind, name: &str) -> Slot {
        let slot = self.slots.get(&(kind, name.to_owned()));
        slot.cloned().unwrap_or_default()
    }

    /// A write goes out.
    pub(super) fn sent(&mut self, kind: Kind, name: &str, number: Option<u64>) {
        let after = self.newest();
        let slot = self.slots.entry((kind, name.to_owned())).or_default();
        slot.pending = Some(Pending { number, after });
    }

    /// A write was acknowledged with this state.
    pub(super) fn acknowledged(&mut self, kind: Kind, name: &str, state: Option<Known>) -> Result<()> {
        if let Some(known) = &state {
            let after = self.slot(kind, name).pending.map_or(0, |it| it.after);
            ensure!(
                known.version > after,
                "{name} was written at version {}, and {after} had been seen before",
                known.version
            );
            self.saw(kind, name, known.version, Some(known.number))?;
            self.promised.entry(kind).or_default().insert(known.version);
        }
        self.acknowledged += 1;
        let slot = Slot {
            acknowledged: state,
            pending: None,
        };
        self.slots.insert((kind, name.to_owned()), slot);
        Ok(())
    }

    fn newest(&self) -> u64 {
        self.used.last_key_value().map_or(0, |(version, _)| *version)
    }

    /// A write was refused: nothing became of it.
    pub(super) fn refused(&mut self, kind: Kind, name: &str) {
        let slot = self.slots.entry((kind, name.to_owned())).or_default();
        slot.pending = None;
    }

    /// A version was seen on something: it must never have been seen on anything else.
    pub(super) fn saw(&mut self, kind: Kind, name: &str, version: u64, number: Option<u64>) -> Result<()> {
        let now = (kind, name.to_owned(), number);
        if let Some(before) = self.used.get(&version) {
            ensure!(
                *before == now,
                "version {version} was used twice: {before:?}, now {now:?}"
            );
        }
        self.used.insert(version, now);
        Ok(())
    }

    pub(super) fn promised(&self, kind: Kind) -> BTreeSet<u64> {
        self.promised.get(&kind).cloned().unwrap_or_default()
    }

    /// Compares what is there after a restart with what was promised, and goes on from it.
    pub(super) fn compare(&mut self, kind: Kind, listed: &Listed) -> Result<()> {
        let newest = self.newest();
        ensure!(
            listed.version >= newest,
            "the server is at version {}, and {newest} was seen before",
            listed.version
        );
        let names: Vec<String> = self
            .slots
            .keys()
            .filter(|(of, _)| *of == kind)
            .map(|(_, name)| name.clone())
            .collect();
        for name in names {
            let found = listed.objects.get(&name);
            let slot = self.slot(kind, &name);
            check(kind, &name, &slot, found)?;
            self.cut += usize::from(slot.pending.is_some());
            if let Some(found) = found {
                self.saw(kind, &name, found.version, Some(found.number))?;
            }
            let now = Slot {
                acknowledged: found.cloned(),
                pending: None,
            };
            self.slots.insert((kind, name), now);
        }
        Ok(())
    }
}

fn check(kind: Kind, name: &str, slot: &Slot, found: Option<&Known>) -> Result<()> {
    let later = |known: &Known, found: &Known| {
        kind.has_a_life() && (known.number, &known.uid) == (found.number, &found.uid) && known.version <= found.version
    };
    let kept = match (&slot.acknowledged, found) {
        (Some(known), Some(found)) => known == found || later(known, found),
        (known, found) => known.as_ref() == found,
    };
    let went_through = slot.pending.is_some_and(|pending| match found {
        None => pending.number.is_none(),
        Some(found) => Some(found.number) == pending.number && found.version > pending.after,
    });
    ensure!(
        kept || went_through,
        "{} {name}: promised {slot:?}, found {found:?}",
        kind.kind
    );
    Ok(())
}
