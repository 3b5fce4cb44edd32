//! Cache of the floating IPs of one account, and who uses which. Pure: no calls; the caller passes the time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aplomb::ObjectKey;
use aplomb_api::egress::{FloatingIpRef, labels};

use super::model::FloatingIp;
use crate::egress::{ObservedFloatingIp, ProviderTrouble};

/// How a user refers to a floating IP.
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

/// A read: one request, or for a listing one request per page.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ReadPlan {
    /// All floating IPs of the project.
    Listing,
    ById(i64),
    /// One by its name, because its ID is not known.
    ByName(String),
}

/// When a read started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ReadMark {
    /// Number of writes before it.
    pub(super) epoch: u64,
    /// In this process's time. What is read is at least as recent.
    pub(super) at: Duration,
}

#[derive(Debug)]
pub(super) struct FloatingIpCache {
    wanted: BTreeMap<ObjectKey, FloatingIpSelector>,
    ids: BTreeMap<String, i64>,
    found: BTreeMap<i64, (ReadMark, FloatingIp)>,
    absent: BTreeMap<FloatingIpSelector, ReadMark>,
    /// Number of writes that may have changed something: reads that started before the last write are not trusted.
    epoch: u64,
    /// Number of requests of the last listing.
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

    /// Removes a user, and entries that no other user needs.
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

    /// Something was written, or may have been: only reads that start from now on count.
    pub(super) fn invalidate(&mut self) {
        self.epoch += 1;
    }

    /// The cheapest read for a user of `which`. An urgent one reads no more than it needs.
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

    /// Stores all of a page, also what is not in use yet.
    pub(super) fn store_page(&mut self, page: Vec<FloatingIp>, mark: ReadMark) {
        for ip in page {
            self.store_one(ip, mark);
        }
    }

    /// Whether a listing has returned everything in use.
    pub(super) fn is_complete(&self, mark: ReadMark) -> bool {
        let seen = |which: &FloatingIpSelector| {
            let found = self.known_id(which).and_then(|id| self.found.get(&id));
            found.is_some_and(|(since, _)| *since >= mark)
        };
        self.wanted.values().all(seen)
    }

    /// A listing ended after `pages` pages: entries that it did not return do not exist.
    pub(super) fn finish_listing(&mut self, pages: u32, mark: ReadMark) {
        self.pages = pages;
        let all: BTreeSet<_> = self.wanted.values().cloned().collect();
        let ids: BTreeSet<_> = all.iter().filter_map(|which| self.known_id(which)).collect();
        self.found.retain(|id, (since, _)| *since >= mark || ids.contains(id));
        self.ids.retain(|_, id| self.found.contains_key(id));
        for which in all {
            let found = self.known_id(&which).and_then(|id| self.found.get(&id));
            if found.is_none_or(|(since, _)| *since < mark) {
                self.record_absent(which, mark);
            }
        }
    }

    /// Stores a floating IP that was read, unless a later read was stored already.
    pub(super) fn store_one(&mut self, ip: FloatingIp, mark: ReadMark) {
        let overtaken = |(since, _): &(ReadMark, FloatingIp)| *since > mark;
        if self.found.get(&ip.id).is_some_and(overtaken) {
            return;
        }
        self.ids.retain(|_, id| *id != ip.id);
        self.ids.insert(ip.name.clone(), ip.id);
        self.absent.remove(&FloatingIpSelector::Id(ip.id));
        self.absent.remove(&FloatingIpSelector::Name(ip.name.clone()));
        self.found.insert(ip.id, (mark, ip));
    }

    /// Stores that a floating IP does not exist.
    pub(super) fn record_absent(&mut self, which: FloatingIpSelector, mark: ReadMark) {
        match &which {
            FloatingIpSelector::Id(id) => {
                self.found.remove(id);
                // The name may belong to another floating IP by now: look it up again.
                self.ids.retain(|_, known| known != id);
            }
            FloatingIpSelector::Name(name) => {
                self.ids.remove(name);
            }
        }
        self.absent.insert(which, mark);
    }

    /// The last known state, of any age. `None` for a floating IP that no longer exists.
    pub(super) fn last_seen(&self, which: &FloatingIpSelector) -> Option<ObservedFloatingIp> {
        let (mark, ip) = self.found.get(&self.known_id(which)?)?;
        Some(observed(ip, *mark))
    }

    /// What is known of it, present or absent, and when it was read.
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

    /// The labels as they were read.
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
mod tests;
