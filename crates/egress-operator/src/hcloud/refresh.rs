//! Reads of floating IPs: concurrent users of a token share one read.

use std::time::Duration;

use aplomb::ObjectKey;
use aplomb::leadership::fence::Fence;
use aplomb_api::egress::FloatingIpRef;
use tokio::time::Instant;

use super::account::HcloudAccount;
use super::cache::{FloatingIpSelector, ReadPlan};
use super::call::{CallPurpose, CallTerms};
use super::client::{FloatingIpQuery, HcloudClient};
use crate::egress::{ObservedFloatingIp, ProviderTrouble};
use crate::telemetry::HcloudOperation;

/// How long a failed read is reported to other callers that are not urgent.
const FAILURE_TTL: Duration = Duration::from_secs(10);
/// A name that was given to another floating IP takes three reads: by the old ID, by name, and once more if it changed
/// in between.
const MAX_ATTEMPTS: usize = 3;

impl HcloudAccount {
    /// The state of a floating IP, read again unless it is younger than `max_age`. An urgent read belongs to a move and
    /// may use the reserve. So may the first read, without which no move can start.
    ///
    /// # Errors
    /// Why the read failed. [`ProviderTrouble::Throttled`] without a call if only the reserve is left.
    pub async fn refresh(
        &self,
        who: &ObjectKey,
        asked: &FloatingIpRef,
        max_age: Duration,
        urgent: bool,
        deadline: Instant,
        fence: &Fence,
    ) -> Result<ObservedFloatingIp, ProviderTrouble> {
        let which = FloatingIpSelector::from(asked);
        let now = self.now();
        self.with_state(|state| state.cache.add_interest(who, which.clone()));
        for round in 0..MAX_ATTEMPTS {
            let known = match round {
                0 => self.with_state(|state| state.cache.cached_within(&which, now, max_age)),
                // It was just read.
                _ => self.with_state(|state| state.cache.cached_within(&which, now, Duration::MAX)),
            };
            if let Some(known) = known {
                return known;
            }
            let purpose = self.read_purpose(&which, max_age, urgent)?;
            self.read_shared(&which, (purpose, deadline, fence)).await?;
        }
        let known = self.with_state(|state| state.cache.cached(&which));
        known.map_or(Err(ProviderTrouble::NotFound), |(_, known)| known)
    }

    /// Purpose of a read; an error if it has to wait.
    fn read_purpose(
        &self,
        which: &FloatingIpSelector,
        max_age: Duration,
        urgent: bool,
    ) -> Result<CallPurpose, ProviderTrouble> {
        let now = self.now();
        self.with_state(|state| {
            if urgent || state.cache.cached(which).is_none() {
                return Ok(CallPurpose::Move);
            }
            match &state.last_failure {
                Some((at, trouble)) if now.saturating_sub(*at) < FAILURE_TTL.min(max_age) => {
                    return Err(trouble.clone());
                }
                _ => {}
            }
            match (state.is_scarce(now), state.next_read_at(now)) {
                (_, Some(_)) => Err(ProviderTrouble::Throttled),
                (true, None) => Ok(CallPurpose::Probe),
                (false, None) => Ok(CallPurpose::Read),
            }
        })
    }

    /// Runs the cheapest read, once for all callers that need it now.
    async fn read_shared(
        &self,
        which: &FloatingIpSelector,
        (purpose, deadline, fence): CallTerms<'_>,
    ) -> Result<(), ProviderTrouble> {
        let urgent = purpose == CallPurpose::Move;
        let now = self.now();
        let (reading, mark) = self.with_state(|state| {
            let reading = state.cache.plan_read(which, urgent);
            (reading, state.cache.read_mark(now))
        });
        let key = (mark.epoch, purpose, reading.clone());
        let (account, fence) = (self.clone(), fence.clone());
        let begin = || async move {
            let read = account.run_read(reading, (purpose, deadline, &fence)).await;
            let now = account.now();
            let failure = read.clone().err().map(|trouble| (now, trouble));
            account.with_state(|state| state.last_failure = failure);
            Ok(read)
        };
        let read = self.0.flight.get(&key, begin).await;
        read.unwrap_or_else(|error| Err(ProviderTrouble::Unreachable(error.to_string())))
    }

    async fn run_read(&self, reading: ReadPlan, terms: CallTerms<'_>) -> Result<(), ProviderTrouble> {
        let now = self.now();
        self.with_state(|state| state.throttle.record_sent(now));
        let read = match reading {
            ReadPlan::Listing => self.read_pages(terms).await,
            ReadPlan::ById(id) => self.read_by_id(id, terms).await,
            ReadPlan::ByName(name) => self.read_by_name(name, terms).await,
        };
        read.map_err(read_trouble)
    }

    /// Reads page by page until everything in use was returned.
    async fn read_pages(&self, terms: CallTerms<'_>) -> Result<(), ProviderTrouble> {
        let mark = self.read_mark();
        let (mut page, mut pages) = (1, 0);
        loop {
            let query = FloatingIpQuery { name: None, page };
            let send = |client: HcloudClient| async move { client.floating_ips(&query).await };
            let answer = self.call(HcloudOperation::List, terms, send).await?;
            pages += 1;
            let next = answer.body.next_page().filter(|next| *next > page);
            let complete = self.with_state(|state| {
                state.cache.store_page(answer.body.floating_ips, mark);
                state.cache.is_complete(mark)
            });
            match next {
                Some(next) if !complete => page = next,
                _ => break,
            }
        }
        self.with_state(|state| state.cache.finish_listing(pages, mark));
        Ok(())
    }

    async fn read_by_id(&self, id: i64, terms: CallTerms<'_>) -> Result<(), ProviderTrouble> {
        let mark = self.read_mark();
        let send = |client: HcloudClient| async move { client.floating_ip(id).await };
        let answer = self.call(HcloudOperation::Get, terms, send).await;
        match answer.map_err(ProviderTrouble::from) {
            Ok(answer) => self.with_state(|state| state.cache.store_one(answer.body, mark)),
            Err(ProviderTrouble::NotFound) => {
                self.with_state(|state| state.cache.record_absent(FloatingIpSelector::Id(id), mark))
            }
            Err(trouble) => return Err(trouble),
        }
        Ok(())
    }

    async fn read_by_name(&self, name: String, terms: CallTerms<'_>) -> Result<(), ProviderTrouble> {
        let mark = self.read_mark();
        let query = FloatingIpQuery {
            name: Some(name.clone()),
            page: 1,
        };
        let send = |client: HcloudClient| async move { client.floating_ips(&query).await };
        let answer = self.call(HcloudOperation::List, terms, send).await?;
        let mut found = answer.body.floating_ips.into_iter();
        let found = found.find(|ip| ip.name == name);
        self.with_state(|state| match found {
            Some(ip) => state.cache.store_one(ip, mark),
            None => state.cache.record_absent(FloatingIpSelector::Name(name), mark),
        });
        Ok(())
    }
}

/// A read cannot be refused or locked like a move: such a response leaves the holder of the floating IP unknown.
fn read_trouble(trouble: ProviderTrouble) -> ProviderTrouble {
    match trouble {
        ProviderTrouble::Refused(code) => ProviderTrouble::Unreachable(format!("read refused: {code}")),
        ProviderTrouble::Locked => ProviderTrouble::Unreachable("read refused: locked".to_owned()),
        other => other,
    }
}
