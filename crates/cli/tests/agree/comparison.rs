//! Everything seen so far, by object and version. All sources must show the same texts for an object at a
//! version.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::sample::{Cells, Object, Sample};

/// A version that the API server has and the status does not have yet; `None` for a deletion.
#[derive(Clone, Copy, Debug)]
struct PendingVersion {
    version: Option<u64>,
    since: Instant,
}

/// Texts by column, each with the source that showed it first.
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
    /// Records what a source shows.
    pub(crate) fn record(&mut self, source: &'static str, sample: &Sample) {
        self.samples += 1;
        for (object, shown) in sample {
            self.cells(source, object, shown.version, &shown.cells);
        }
    }

    /// Records the cells of an object at a version.
    pub(crate) fn cells(&mut self, source: &'static str, object: &Object, version: u64, cells: &Cells) {
        let known = self.recorded.entry((object.clone(), version)).or_default();
        for (column, text) in cells {
            let Some((first, who)) = known.get(column) else {
                known.insert(column.clone(), (text.clone(), source));
                continue;
            };
            self.compared += usize::from(*who != source);
            if first != text {
                let place = format!("{object:?} at {version}, {column}");
                let both = format!("{who} shows {first:?}, {source} shows {text:?}");
                self.faults.push(format!("{place}: {both}"));
            }
        }
    }

    /// Records what the API server has, both before and after the status was read at `since`.
    pub(crate) fn check_settled(&mut self, server: &Sample, status: &Sample, since: Instant) {
        let kinds: std::collections::BTreeSet<&str> = status.keys().map(|object| object.0.as_str()).collect();
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

    /// Records the current status: awaited versions may have arrived.
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

    /// Versions that have been awaited for longer than `limit`.
    pub(crate) fn overdue_objects(&self, now: Instant, limit: Duration) -> Vec<String> {
        let late = self.awaited.iter().filter(|(_, it)| now - it.since > limit);
        late.map(|(object, it)| format!("{object:?} at {:?}", it.version))
            .collect()
    }

    /// The 99th percentile of the delays.
    pub(crate) fn p99(&self) -> Duration {
        let mut lags = self.delays.clone();
        lags.sort();
        let at = lags.len() * 99 / 100;
        lags.get(at.min(lags.len().saturating_sub(1)))
            .copied()
            .unwrap_or_default()
    }

    /// Whether one wrong cell in a sample would be found.
    pub(crate) fn detects_wrong_cell(&self, sample: &Sample) -> bool {
        let mut wrong = sample.clone();
        let cells = wrong.values_mut().flat_map(|shown| shown.cells.values_mut());
        let Some(cell) = cells.last() else {
            return false;
        };
        cell.push('!');
        let mut copy = self.clone();
        let before = copy.faults.len();
        copy.record("a wrong source", &wrong);
        copy.faults.len() == before + 1
    }

    /// Whether a page that is behind the server would be found.
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
