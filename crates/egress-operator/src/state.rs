//! In-memory state of each StableEgress between reconciles, in addition to its status. Any of it may be lost: a new
//! leader starts without it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use aplomb::ObjectKey;
use aplomb_api::egress::{FloatingIpRef, StableEgressStatus};
use parking_lot::Mutex;

use crate::decide::MAX_REFUSALS;
use crate::egress::{ActionState, ClaimFailed, FloatingIpState, MoveInProgress, ObservedAction, ProviderTrouble};
use crate::hcloud::HcloudAccount;

#[derive(Clone, Debug, Default)]
pub(crate) struct EgressState {
    /// The leader that stored it, and the UID of the object.
    term: u64,
    uid: String,
    /// The floating IP and account of earlier calls.
    call_subject: Option<(FloatingIpRef, Option<HcloudAccount>)>,
    /// The status of the last plan, which may be newer than the cache.
    pub(crate) status: Option<StableEgressStatus>,
    /// Nodes already reported as permanently unusable.
    pub(crate) reported_unusable: BTreeSet<String>,
    pub(crate) moving: Option<MoveInProgress>,
    trouble: Option<ProviderTrouble>,
    trouble_since: Option<Duration>,
    trouble_at: Option<Duration>,
    troubles: u32,
    retry_delay: Option<Duration>,
    term_failure: Option<ClaimFailed>,
}

impl EgressState {
    /// Sets the floating IP and account of the next calls. Errors of a replaced token or floating IP do not apply to
    /// the new one.
    fn set_subject(&mut self, asked: &FloatingIpRef, account: Option<&HcloudAccount>) {
        let same = self.call_subject.as_ref().is_some_and(|(before, with)| {
            let same_account = match (with, account) {
                (Some(before), Some(now)) => before.same_account(now),
                (before, now) => before.is_none() && now.is_none(),
            };
            before == asked && same_account
        });
        if !same {
            self.record_success();
            self.term_failure = None;
            self.call_subject = Some((asked.clone(), account.cloned()));
        }
    }

    /// Adds stored errors to the state of the provider.
    pub(crate) fn copy_troubles(&self, cloud: &mut FloatingIpState) {
        cloud.trouble.clone_from(&self.trouble);
        cloud.trouble_since = self.trouble_since;
        cloud.trouble_at = self.trouble_at;
        cloud.troubles = self.troubles;
        cloud.retry_delay = self.retry_delay;
        cloud.term_failure.clone_from(&self.term_failure);
    }

    /// The write of this leader's term succeeded or failed. Reads continue either way.
    pub(crate) fn record_term_write(&mut self, over: u64, answer: Result<(), ProviderTrouble>, now: Duration) {
        let before = self.term_failure.take().map_or(0, |failed| failed.failures);
        self.term_failure = answer.err().map(|trouble| ClaimFailed {
            trouble,
            at: now,
            failures: before.saturating_add(1),
            replaced_term: over,
        });
    }

    pub(crate) fn record_success(&mut self) {
        self.trouble = None;
        self.trouble_since = None;
        self.trouble_at = None;
        self.troubles = 0;
    }

    pub(crate) fn record_failure(&mut self, trouble: ProviderTrouble, now: Duration) {
        self.trouble = Some(trouble);
        self.trouble_since.get_or_insert(now);
        self.trouble_at = Some(now);
        self.troubles = self.troubles.saturating_add(1);
    }

    /// The pause after a failure at `now`: drawn once, so that other events do not change it.
    pub(crate) fn set_retry_delay(&mut self, now: Duration, pace: impl FnOnce() -> Duration) {
        if self.trouble_at == Some(now) {
            self.retry_delay = Some(pace());
        }
    }

    pub(crate) fn record_read(&mut self) {
        let failed = self.troubles;
        self.record_success();
        if let Some(moving) = &mut self.moving {
            moving.read_since = true;
            if moving.action.is_none() {
                // Successful reads do not reset the retry count of a failing Assign.
                self.troubles = failed;
            }
        }
    }

    pub(crate) fn record_assign(
        &mut self,
        node: &str,
        server: i64,
        answer: Result<ObservedAction, ProviderTrouble>,
        now: Duration,
    ) {
        let mut moving = next_attempt(self.moving.as_ref(), node, server);
        match answer {
            Ok(action) => {
                moving.action = Some(action);
                moving.locks = 0;
                self.record_success();
            }
            Err(trouble) => {
                let trouble = assign_trouble(trouble);
                // Any other server would be throttled or unreachable just like this one.
                moving.refusals += u32::from(matches!(trouble, ProviderTrouble::Refused(_)));
                moving.locks += u32::from(trouble == ProviderTrouble::Locked);
                // A refusal is definite: nothing has changed since the last read.
                let lasting = trouble == ProviderTrouble::Locked && moving.locks == MAX_REFUSALS;
                moving.read_since = !lasting && !matches!(trouble, ProviderTrouble::Unreachable(_));
                self.record_failure(trouble, now);
            }
        }
        self.moving = Some(moving);
    }

    pub(crate) fn record_poll(&mut self, answer: Result<ActionState, ProviderTrouble>, now: Duration) {
        let Some(moving) = &mut self.moving else {
            return;
        };
        let Some(action) = &mut moving.action else {
            return;
        };
        action.polled_at = now;
        action.polls += 1;
        match answer {
            Ok(state) => {
                if state != ActionState::Running {
                    moving.read_since = false;
                }
                let failed = matches!(state, ActionState::Error(_)) && state != action.state;
                moving.refusals += u32::from(failed);
                action.state = state;
                self.record_success();
            }
            // The provider deletes old actions: read the floating IP for the result.
            Err(ProviderTrouble::NotFound) => {
                moving.action = None;
                moving.read_since = false;
                self.record_success();
            }
            Err(trouble) => self.record_failure(trouble, now),
        }
    }
}

/// The next Assign of the move `before`: to the same server, to another, or to the first one after all have failed.
pub(crate) fn next_attempt(before: Option<&MoveInProgress>, node: &str, server: i64) -> MoveInProgress {
    let same = before.filter(|before| before.server == server);
    let mut passed = before.map_or_else(BTreeSet::new, |before| before.skipped_servers.clone());
    match before {
        _ if passed.contains(&server) => passed.clear(),
        Some(before) if same.is_none() && before.refusals + before.locks > 0 => {
            passed.insert(before.server);
        }
        _ => {}
    }
    MoveInProgress {
        node: node.to_owned(),
        server,
        action: None,
        read_since: false,
        refusals: same.map_or(0, |it| it.refusals + u32::from(action_succeeded(it))),
        locks: same.map_or(0, |it| it.locks),
        skipped_servers: passed,
    }
}

/// Whether the last action reported success. A repeated Assign means that it did not move the floating IP.
fn action_succeeded(moving: &MoveInProgress) -> bool {
    let action = moving.action.as_ref();
    action.is_some_and(|action| action.state == ActionState::Success)
}

/// The floating IP was read just before, so the server is the missing object.
fn assign_trouble(trouble: ProviderTrouble) -> ProviderTrouble {
    match trouble {
        ProviderTrouble::NotFound => ProviderTrouble::Refused("not_found".to_owned()),
        other => other,
    }
}

/// The state of all StableEgress objects. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct EgressStates(Arc<Mutex<All>>);

#[derive(Debug, Default)]
struct All {
    /// The term of this leader, and when it started.
    leader: Option<(u64, Duration)>,
    states: BTreeMap<ObjectKey, EgressState>,
}

/// Owner of an entry: object and leader.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StateKey<'a> {
    pub(crate) key: &'a ObjectKey,
    /// A recreated object of the same name is another object.
    pub(crate) uid: &'a str,
    pub(crate) term: u64,
}

impl EgressStates {
    /// When this process became leader `term`. Another leader may have changed what it read before.
    pub(crate) fn leader_since(&self, term: u64, now: Duration) -> Duration {
        let mut all = self.0.lock();
        let leader = all.leader.filter(|(known, _)| *known == term);
        all.leader.insert(leader.unwrap_or((term, now))).1
    }

    /// The state for calls about `asked` with `account`; empty if it belongs to another leader or object.
    pub(crate) fn state_for(
        &self,
        whose: StateKey<'_>,
        asked: &FloatingIpRef,
        account: Option<&HcloudAccount>,
    ) -> EgressState {
        self.update(whose.key, |memory| {
            if memory.term != whose.term || memory.uid != whose.uid {
                *memory = EgressState {
                    term: whose.term,
                    uid: whose.uid.to_owned(),
                    ..EgressState::default()
                };
            }
            memory.set_subject(asked, account);
            memory.clone()
        })
    }

    pub(crate) fn update<T>(&self, key: &ObjectKey, act: impl FnOnce(&mut EgressState) -> T) -> T {
        act(self.0.lock().states.entry(key.clone()).or_default())
    }

    pub(crate) fn remove(&self, key: &ObjectKey) {
        self.0.lock().states.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count_refusals(memory: &EgressState) -> u32 {
        memory.moving.as_ref().map_or(0, |moving| moving.refusals)
    }

    #[test]
    fn only_what_is_about_the_server_is_held_against_it() {
        let (mut memory, now) = (EgressState::default(), Duration::ZERO);
        for trouble in [
            ProviderTrouble::Throttled,
            ProviderTrouble::Locked,
            ProviderTrouble::Unreachable("no answer".to_owned()),
        ] {
            memory.record_assign("a", 1, Err(trouble), now);
            assert_eq!(count_refusals(&memory), 0);
        }
        memory.record_assign("a", 1, Err(ProviderTrouble::Refused("protected".to_owned())), now);
        assert_eq!(count_refusals(&memory), 1);
        memory.record_assign("b", 2, Err(ProviderTrouble::Throttled), now);
        assert_eq!(count_refusals(&memory), 0);
    }

    #[test]
    fn an_action_that_failed_is_held_against_its_server_once() {
        let (mut memory, now) = (EgressState::default(), Duration::ZERO);
        let action = ObservedAction {
            id: 7,
            state: ActionState::Running,
            accepted_at: now,
            polled_at: now,
            polls: 0,
        };
        memory.record_assign("a", 1, Ok(action), now);
        for _ in 0..2 {
            let failed = ActionState::Error("action_failed".to_owned());
            memory.record_poll(Ok(failed), now);
        }
        assert_eq!(count_refusals(&memory), 1);
    }

    fn state_key<'a>(key: &'a ObjectKey, uid: &'a str, term: u64) -> StateKey<'a> {
        StateKey { key, uid, term }
    }

    #[test]
    fn another_leader_or_another_object_of_the_name_begins_without_memory() {
        let (memories, key, asked) = (
            EgressStates::default(),
            ObjectKey::new(None, "web"),
            FloatingIpRef::default(),
        );
        let troubled = |uid: &str, term: u64| {
            let memory = memories.state_for(state_key(&key, uid, term), &asked, None);
            memory.trouble.is_some()
        };
        assert!(!troubled("a", 1));
        memories.update(&key, |memory| {
            memory.record_failure(ProviderTrouble::Throttled, Duration::ZERO)
        });
        assert!(troubled("a", 1));
        assert!(!troubled("a", 2), "another leader");
        memories.update(&key, |memory| {
            memory.record_failure(ProviderTrouble::Throttled, Duration::ZERO)
        });
        assert!(!troubled("b", 2), "another object");
    }

    #[test]
    fn a_corrected_floating_ip_is_not_kept_waiting_by_the_troubles_of_the_wrong_one() {
        let (memories, key) = (EgressStates::default(), ObjectKey::new(None, "web"));
        let named = |name: &str| FloatingIpRef {
            name: Some(name.to_owned()),
            id: None,
        };
        let troubled = |name: &str| {
            let memory = memories.state_for(state_key(&key, "a", 1), &named(name), None);
            memory.trouble.is_some()
        };
        assert!(!troubled("wbe"));
        memories.update(&key, |memory| {
            memory.record_failure(ProviderTrouble::NotFound, Duration::ZERO)
        });
        assert!(troubled("wbe"));
        assert!(!troubled("web"));
    }

    #[test]
    fn a_leader_that_comes_back_leads_again() {
        let (memories, at) = (EgressStates::default(), Duration::from_secs);
        assert_eq!(memories.leader_since(1, at(5)), at(5));
        assert_eq!(memories.leader_since(1, at(9)), at(5));
        assert_eq!(memories.leader_since(3, at(20)), at(20), "another led in between");
    }

    #[test]
    fn an_action_without_effect_is_held_against_its_server_when_repeated() {
        let (mut memory, now) = (EgressState::default(), Duration::ZERO);
        let action = ObservedAction {
            id: 0,
            state: ActionState::Success,
            accepted_at: now,
            polled_at: now,
            polls: 0,
        };
        for repeated in 0..3 {
            memory.record_assign("a", 1, Ok(action.clone()), now);
            assert_eq!(count_refusals(&memory), repeated);
        }
        memory.record_assign("b", 2, Ok(action), now);
        assert_eq!(count_refusals(&memory), 0);
    }
}
