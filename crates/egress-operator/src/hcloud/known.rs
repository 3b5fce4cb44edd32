//! What is known of the floating IPs of one account, and who wants to know. Pure: no calls, and time is
//! given by the caller.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aplomb::ObjectKey;
use aplomb_api::egress::{FloatingIpRef, labels};

use crate::client::FloatingIp;
use crate::world::{ObservedFloatingIp, ProviderTrouble};

/// A floating IP as somebody asks for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FloatingIpSelector {
    Id(i64),
    Name(String),
}

impl From<&FloatingIpRef> for FloatingIpSelector {
    fn from(asked: &FloatingIpRef) -> Self {
        match asked.id {
            Some(id) => Self::Id(id),
            None => Self::Name(asked.name.clone().unwrap_or_default()),
        }
    }
}

/// A request, or for a listing as many as it has pages.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ReadPlan {
    /// All of the project.
    Listing,
    /// One by its id.
    ById(i64),
    /// One by its name, because its id is not known.
    ByName(String),
}

/// When a read was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ReadMark {
    /// After how many writes.
    pub(super) epoch: u64,
    /// In this process's time. What is read is at least as new.
    pub(super) at: Duration,
}

#[derive(Debug)]
pub(super) struct FloatingIpCache {
    wanted: BTreeMap<ObjectKey, FloatingIpSelector>,
    ids: BTreeMap<String, i64>,
    found: BTreeMap<i64, (ReadMark, FloatingIp)>,
    absent: BTreeMap<FloatingIpSelector, ReadMark>,
    /// How many writes may have changed something: what was read before the last is doubtful.
    epoch: u64,
    /// How many requests the last listing took.
    pages: u32,
}

impl Default for FloatingIpCache {
    fn default() -> Self {
        Self {
            wanted: BTreeMap::new(),
            ids: BTreeMap::new(),
            found: BTreeMap::new(),
            absent: BTreeMap::new(),
            epoch: 0,
            pages: 1,
        }
    }
}

impl FloatingIpCache {
    pub(super) fn add_interest(&mut self, who: &ObjectKey, which: FloatingIpSelector) {
        self.wanted.insert(who.clone(), which);
    }

    /// Forgets somebody, and what nobody else asks for.
    pub(super) fn remove_interest(&mut self, who: &ObjectKey) {
        self.wanted.remove(who);
        let wanted: BTreeSet<_> = self.wanted.values().cloned().collect();
        self.ids
            .retain(|name, _| wanted.contains(&FloatingIpSelector::Name(name.clone())));
        self.absent.retain(|which, _| wanted.contains(which));
        let ids: BTreeSet<_> = wanted.iter().filter_map(|which| self.known_id(which)).collect();
        self.found.retain(|id, _| ids.contains(id));
    }

    pub(super) fn is_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    pub(super) fn read_mark(&self, now: Duration) -> ReadMark {
        ReadMark {
            epoch: self.epoch,
            at: now,
        }
    }

    /// Something was written, or may have been: only what is read from now on counts.
    pub(super) fn invalidate(&mut self) {
        self.epoch += 1;
    }

    /// The read that costs least for somebody who asks for `which`. An urgent one waits for no more
    /// than it needs.
    pub(super) fn plan_read(&self, which: &FloatingIpSelector, urgent: bool) -> ReadPlan {
        let all: BTreeSet<_> = self.wanted.values().collect();
        let many = all.len();
        let listing = many > 1 && many >= self.pages as usize && !(urgent && self.pages > 1);
        match (self.known_id(which), which) {
            _ if listing => ReadPlan::Listing,
            (Some(id), _) => ReadPlan::ById(id),
            (None, FloatingIpSelector::Id(id)) => ReadPlan::ById(*id),
            (None, FloatingIpSelector::Name(name)) => ReadPlan::ByName(name.clone()),
        }
    }

    /// A page was read. All of it is kept, for those who will ask next.
    pub(super) fn store_page(&mut self, page: Vec<FloatingIp>, mark: ReadMark) {
        for ip in page {
            self.store_one(ip, mark);
        }
    }

    /// Whether a listing has shown everybody what they ask for.
    pub(super) fn is_complete(&self, mark: ReadMark) -> bool {
        let seen = |which: &FloatingIpSelector| {
            let found = self.known_id(which).and_then(|id| self.found.get(&id));
            found.is_some_and(|(since, _)| *since >= mark)
        };
        self.wanted.values().all(seen)
    }

    /// A listing has ended after so many pages: what it did not show is not there.
    pub(super) fn finish_listing(&mut self, pages: u32, mark: ReadMark) {
        self.pages = pages;
        let all: BTreeSet<_> = self.wanted.values().cloned().collect();
        let ids: BTreeSet<_> = all.iter().filter_map(|which| self.known_id(which)).collect();
        self.found
            .retain(|id, (since, _)| *since >= mark || ids.contains(id));
        self.ids.retain(|_, id| self.found.contains_key(id));
        for which in all {
            let found = self.known_id(&which).and_then(|id| self.found.get(&id));
            if found.is_none_or(|(since, _)| *since < mark) {
                self.record_absent(which, mark);
            }
        }
    }

    /// A floating IP was read. An answer that was overtaken by a later one is not kept.
    pub(super) fn store_one(&mut self, ip: FloatingIp, mark: ReadMark) {
        let overtaken = |(since, _): &(ReadMark, FloatingIp)| *since > mark;
        if self.found.get(&ip.id).is_some_and(overtaken) {
            return;
        }
        self.ids.retain(|_, id| *id != ip.id);
        self.ids.insert(ip.name.clone(), ip.id);
        self.absent.remove(&FloatingIpSelector::Id(ip.id));
        self.absent
            .remove(&FloatingIpSelector::Name(ip.name.clone()));
        self.found.insert(ip.id, (mark, ip));
    }

    /// There is none.
    pub(super) fn record_absent(&mut self, which: FloatingIpSelector, mark: ReadMark) {
        match &which {
            FloatingIpSelector::Id(id) => {
                self.found.remove(id);
                // A name may be given to another: it is looked for again.
                self.ids.retain(|_, known| known != id);
            }
            FloatingIpSelector::Name(name) => {
                self.ids.remove(name);
            }
        }
        self.absent.insert(which, mark);
    }

    /// What was seen last, however long ago. What is not there any more is not shown.
    pub(super) fn last_seen(&self, which: &FloatingIpSelector) -> Option<ObservedFloatingIp> {
        let (mark, ip) = self.found.get(&self.known_id(which)?)?;
        Some(observed(ip, *mark))
    }

    /// What is known of it, present or absent, and since when.
    pub(super) fn cached(
        &self,
        which: &FloatingIpSelector,
    ) -> Option<(ReadMark, Result<ObservedFloatingIp, ProviderTrouble>)> {
        if let Some(mark) = self.absent.get(which) {
            return Some((*mark, Err(ProviderTrouble::NotFound)));
        }
        let (mark, ip) = self.found.get(&self.known_id(which)?)?;
        Some((*mark, Ok(observed(ip, *mark))))
    }

    /// The same, if it is younger than `max_age` and nothing was written since.
    pub(super) fn cached_within(
        &self,
        which: &FloatingIpSelector,
        now: Duration,
        max_age: Duration,
    ) -> Option<Result<ObservedFloatingIp, ProviderTrouble>> {
        let (mark, known) = self.cached(which)?;
        let young = now.saturating_sub(mark.at) < max_age;
        (young && mark.epoch == self.epoch).then_some(known)
    }

    /// The labels it was read with.
    pub(super) fn labels(&self, id: i64) -> Option<BTreeMap<String, String>> {
        self.found.get(&id).map(|(_, ip)| ip.labels.clone())
    }

    fn known_id(&self, which: &FloatingIpSelector) -> Option<i64> {
        match which {
            FloatingIpSelector::Id(id) => Some(*id),
            FloatingIpSelector::Name(name) => self.ids.get(name).copied(),
        }
    }
}

fn observed(ip: &FloatingIp, mark: ReadMark) -> ObservedFloatingIp {
    let term = ip.labels.get(labels::TERM);
    ObservedFloatingIp {
        id: ip.id,
        ip: ip.ip,
        server: ip.server,
        blocked: ip.blocked,
        term: term.and_then(|term| term.parse().ok()).unwrap_or(0),
        at: mark.at,
    }
}

#[cfg(test)]
#[path = "known_tests.rs"]
mod tests;
