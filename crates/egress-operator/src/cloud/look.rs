//! Reads of floating IPs: concurrent users of a token share one read.

use std::time::Duration;

use aplomb::ObjectKey;
use aplomb::fence::Fence;
use aplomb_api::egress::FloatingIpRef;
use tokio::time::Instant;

use super::account::HcloudAccount;
use super::call::{CallPurpose, CallTerms};
use super::known::{FloatingIpSelector, ReadPlan};
use crate::client::{FloatingIpQuery, HcloudClient};
use crate::telemetry::HcloudOperation;
use crate::world::{ObservedFloatingIp, ProviderTrouble};

/// How long a failed read is reported to other callers that are not urgent.
const STILL_SO: Duration = Duration::from_secs(10);
/// A name that was given to another floating IP takes three reads: by the old ID, by name, and once
/// more if it changed in between.
const ROUNDS: usize = 3;

impl HcloudAccount {
    /// The state of a floating IP, read again unless it is younger than `max_age`. An urgent read
    /// belongs to a move and may use the reserve. So may the first read, without which no move can
    /// start.
    ///
    /// # Errors
    /// Why the read failed. [`ProviderTrouble::Throttled`] without a call if only the reserve is
    /// left.
    pub async fn look(
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
        self.state(|state| state.known.want(who, which.clone()));
        for round in 0..ROUNDS {
            let known = match round {
                0 => self.state(|state| state.known.fresh(&which, now, max_age)),
                // It was just read.
                _ => self.state(|state| state.known.fresh(&which, now, Duration::MAX)),
            };
            if let Some(known) = known {
                return known;
            }
            let purpose = self.purpose(&which, max_age, urgent)?;
            self.read(&which, (purpose, deadline, fence)).await?;
        }
        let known = self.state(|state| state.known.known(&which));
        known.map_or(Err(ProviderTrouble::NotFound), |(_, known)| known)
    }

    /// Purpose of a read; an error if it has to wait.
    fn purpose(
        &self,
        which: &FloatingIpSelector,
        max_age: Duration,
        urgent: bool,
    ) -> Result<CallPurpose, ProviderTrouble> {
        let now = self.now();
        self.state(|state| {
            if urgent || state.known.known(which).is_none() {
                return Ok(CallPurpose::Move);
            }
            match &state.failure {
                Some((at, trouble)) if now.saturating_sub(*at) < STILL_SO.min(max_age) => {
                    return Err(trouble.clone());
                }
                _ => {}
            }
            match (state.is_scarce(now), state.not_before(now)) {
                (_, Some(_)) => Err(ProviderTrouble::Throttled),
                (true, None) => Ok(CallPurpose::Probe),
                (false, None) => Ok(CallPurpose::Look),
            }
        })
    }

    /// Runs the cheapest read, once for all callers that need it now.
    async fn read(
        &self,
        which: &FloatingIpSelector,
        (purpose, deadline, fence): CallTerms<'_>,
    ) -> Result<(), ProviderTrouble> {
        let urgent = purpose == CallPurpose::Move;
        let now = self.now();
        let (reading, mark) = self.state(|state| {
            let reading = state.known.reading(which, urgent);
            (reading, state.known.mark(now))
        });
        let key = (mark.epoch, purpose, reading.clone());
        let (account, fence) = (self.clone(), fence.clone());
        let begin = || async move {
            let read = account.fetch(reading, (purpose, deadline, &fence)).await;
            let now = account.now();
            let failure = read.clone().err().map(|trouble| (now, trouble));
            account.state(|state| state.failure = failure);
            Ok(read)
        };
        let read = self.0.flight.get(&key, begin).await;
        read.unwrap_or_else(|error| Err(ProviderTrouble::Unreachable(error.to_string())))
    }

    async fn fetch(&self, reading: ReadPlan, terms: CallTerms<'_>) -> Result<(), ProviderTrouble> {
        let now = self.now();
        self.state(|state| state.thrift.sent(now));
        let read = match reading {
            ReadPlan::Listing => self.list(terms).await,
            ReadPlan::One(id) => self.one(id, terms).await,
            ReadPlan::Named(name) => self.named(name, terms).await,
        };
        read.map_err(of_a_read)
    }

    /// Reads page by page until everything in use was returned.
    async fn list(&self, terms: CallTerms<'_>) -> Result<(), ProviderTrouble> {
        let mark = self.mark();
        let (mut page, mut pages) = (1, 0);
        loop {
            let query = FloatingIpQuery { name: None, page };
            let send = |client: HcloudClient| async move { client.floating_ips(&query).await };
            let answer = self.call(HcloudOperation::List, terms, send).await?;
            pages += 1;
            let next = answer.body.next().filter(|next| *next > page);
            let complete = self.state(|state| {
                state.known.keep(answer.body.floating_ips, mark);
                state.known.is_complete(mark)
            });
            match next {
                Some(next) if !complete => page = next,
                _ => break,
            }
        }
        self.state(|state| state.known.listed(pages, mark));
        Ok(())
    }

    async fn one(&self, id: i64, terms: CallTerms<'_>) -> Result<(), ProviderTrouble> {
        let mark = self.mark();
        let send = |client: HcloudClient| async move { client.floating_ip(id).await };
        let answer = self.call(HcloudOperation::Get, terms, send).await;
        match answer.map_err(ProviderTrouble::from) {
            Ok(answer) => self.state(|state| state.known.read(answer.body, mark)),
            Err(ProviderTrouble::NotFound) => {
                self.state(|state| state.known.missed(FloatingIpSelector::Id(id), mark))
            }
            Err(trouble) => return Err(trouble),
        }
        Ok(())
    }

    async fn named(&self, name: String, terms: CallTerms<'_>) -> Result<(), ProviderTrouble> {
        let mark = self.mark();
        let query = FloatingIpQuery {
            name: Some(name.clone()),
            page: 1,
        };
        let send = |client: HcloudClient| async move { client.floating_ips(&query).await };
        let answer = self.call(HcloudOperation::List, terms, send).await?;
        let mut found = answer.body.floating_ips.into_iter();
        let found = found.find(|ip| ip.name == name);
        self.state(|state| match found {
            Some(ip) => state.known.read(ip, mark),
            None => state.known.missed(FloatingIpSelector::Name(name), mark),
        });
        Ok(())
    }
}

/// A read cannot be refused or locked like a move: such a response leaves the holder of the
/// floating IP unknown.
fn of_a_read(trouble: ProviderTrouble) -> ProviderTrouble {
    match trouble {
        ProviderTrouble::Refused(code) => {
            ProviderTrouble::Unreachable(format!("read refused: {code}"))
        }
        ProviderTrouble::Locked => {
            ProviderTrouble::Unreachable("read refused: locked".to_owned())
        }
        other => other,
    }
}
