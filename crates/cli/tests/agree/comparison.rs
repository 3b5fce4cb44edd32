//! Everything that was seen, by object and version. Whoever shows an object at a version that is known must show the
//! same of it.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::sample::{Cells, Object, Sample};

/// A version that the API server has and the status has not yet; none is "it is gone".
#[derive(Clone, Copy, Debug)]
struct PendingVersion {
    version: Option<u64>,
    since: Instant,
}

/// The texts by column, each with who was the first to show it.
type Known = BTreeMap<String, (String, &'static str)>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Comparison {
    recorded: BTreeMap<(Object, u64), Known>,
    awaited: BTreeMap<Object, PendingVersion>,
    pub(crate) samples: usize,
    pub(crate) compared: usize,
    pub(crate) delays: Vec<Duration>,
    pub(crate) faults: Vec<String>,
}

impl Comparison {
    /// A source shows all this.
    pub(crate) fn record(&mut self, source: &'static str, sample: &Sample) {
        self.samples += 1;
        for (object, shown) in sample {
            self.cells(source, object, shown.version, &shown.cells);
        }
    }

    /// A source shows these cells of an object at a version.
    pub(crate) fn cells(
        &mut self,
        source: &'static str,
        object: &Object,
        version: u64,
        cells: &Cells,
    ) {
        let known = self.recorded.entry((object.clone(), version)).or_default();
        for (column, text) in cells {
            let Some((first, who)) = known.get(column) else {
                known.insert(column.clone(), (text.clone(), source));
                continue;
            };
            self.compared += usize::from(*who != source);
            if first != text {
                let place = format!("{object:?} at {version}, {column}");
                let both = format!("{who} says {first:?}, {source} says {text:?}");
                self.faults.push(format!("{place}: {both}"));
            }
        }
    }

    /// What the API server has, both before and after the status was read at `since`.
    pub(crate) fn check_settled(&mut self, server: &Sample, status: &Sample, since: Instant) {
        let kinds: std::collections::BTreeSet<&str> =
            status.keys().map(|object| object.0.as_str()).collect();
        for (object, shown) in server.iter().filter(|it| kinds.contains(it.0.0.as_str())) {
            let has = status.get(object).map(|it| it.version);
            match has {
                Some(has) if has == shown.version => self.delays.push(Duration::ZERO),
                Some(has) if has > shown.version => self.faults.push(format!(
                    "{object:?}: the status is at {has}, the server at {}",
                    shown.version
                )),
                _ => self.await_object(object, Some(shown.version), since),
            }
        }
    }

    fn await_object(&mut self, object: &Object, version: Option<u64>, since: Instant) {
        let awaited = PendingVersion { version, since };
        self.awaited.entry(object.clone()).or_insert(awaited);
    }

    /// The status has this now: whatever was waited for may have come.
    pub(crate) fn record_arrival(&mut self, status: &Sample, now: Instant) {
        let lags = &mut self.delays;
        self.awaited.retain(|object, awaited| {
            let has = status.get(object).map(|it| it.version);
            let come = match awaited.version {
                Some(version) => has.is_some_and(|has| has >= version),
                None => has.is_none(),
            };
            if come {
                lags.push(now - awaited.since);
            }
            !come
        });
    }

    /// What has been waited for longer than `limit`.
    pub(crate) fn overdue_objects(&self, now: Instant, limit: Duration) -> Vec<String> {
        let late = self.awaited.iter().filter(|(_, it)| now - it.since > limit);
        late.map(|(object, it)| format!("{object:?} at {:?}", it.version))
            .collect()
    }

    /// The time within which 99 of 100 were there.
    pub(crate) fn p99(&self) -> Duration {
        let mut lags = self.delays.clone();
        lags.sort();
        let at = lags.len() * 99 / 100;
        lags.get(at.min(lags.len().saturating_sub(1)))
            .copied()
            .unwrap_or_default()
    }

    /// Whether one wrong cell in a sample would be seen.
    pub(crate) fn detects_wrong_cell(&self, sample: &Sample) -> bool {
        let mut wrong = sample.clone();
        let cells = wrong
            .values_mut()
            .flat_map(|shown| shown.cells.values_mut());
        let Some(cell) = cells.last() else {
            return false;
        };
        cell.push('!');
        let mut copy = self.clone();
        let before = copy.faults.len();
        copy.record("a liar", &wrong);
        copy.faults.len() == before + 1
    }

    /// Whether a page that stays behind the server would be seen.
    pub(crate) fn detects_late_page(&self, status: &Sample, limit: Duration) -> bool {
        let mut server = status.clone();
        let Some(newer) = server.values_mut().next() else {
            return false;
        };
        newer.version += 1;
        let (mut copy, now) = (self.clone(), Instant::now());
        copy.check_settled(&server, status, now);
        copy.record_arrival(status, now + 2 * limit);
        copy.overdue_objects(now + 2 * limit, limit).len() == self.overdue_objects(now, limit).len() + 1
    }
}
