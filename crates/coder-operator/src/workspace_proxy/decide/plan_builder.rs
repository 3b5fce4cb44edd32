//! A decision while it is being made: the status so far, and where its course ends.

use std::time::Duration;

use aplomb::EventNote;
use aplomb::conditions::{ConditionStatus, RECONCILING};
use aplomb_api::coder::{CoderWorkspaceProxyStatus, RetiringProxy, ServerBinding, conditions as kinds, reasons};

use super::desired::{display_key, proxy_display, requested_rotation};
use super::{PERMANENT_RETRY, WAITING_MAX_AGE, has_stored_token, secret_ref};
use crate::blocked::{Blocked, End, record_rate_limit};
use crate::client::{CallErrorClass, WorkspaceProxy};
use crate::conditions::{self, whole_seconds};
use crate::workspace_proxy::{Observed, Plan, ProxyRegistration, Step};

/// Goes on, or ends here.
pub(super) type Course<T> = Result<T, Next>;

/// Where a course ends.
#[derive(Debug)]
pub(super) enum Next {
    /// This comes first.
    Step(Box<Step>),
    /// The status must be written before anything else is done.
    Persist,
    /// No further for now.
    Stop(Box<Stop>),
}

impl Next {
    pub(super) fn step(step: Step) -> Self {
        Self::Step(Box::new(step))
    }
}

/// Why it does not go on.
#[derive(Debug)]
pub(super) enum Stop {
    /// The server or its token cannot be used; `Observed::access` has the reason.
    NoAccess,
    /// The Secret that a person is to make is not there.
    NoToken,
    NotEntitled,
    NotSupported,
    /// The Secret with the token is not kept yet: what is made now could not be taken back without it.
    SecretNotKept,
    Blocked(Blocked),
    Rejected {
        reason: &'static str,
        message: String,
    },
    /// It is being deleted, and something is waited for.
    Deleting(String),
    /// A server of former days is waited for.
    FormerServer(String),
}

impl Stop {
    pub(super) fn rejected(reason: &'static str, message: String) -> Self {
        Self::Rejected { reason, message }
    }
}

impl From<Stop> for Next {
    fn from(stop: Stop) -> Self {
        Self::Stop(Box::new(stop))
    }
}

/// A decision while it is being made.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) status: CoderWorkspaceProxyStatus,
    pub(super) notes: Vec<EventNote>,
    pub(super) entitled: bool,
    /// Whether the server finds the proxy well, if that could be seen.
    pub(super) healthy: Option<bool>,
    /// Registrations that are left behind: their server and name.
    pub(super) orphans: Vec<(String, String)>,
    /// What could not be done although the course went on.
    pub(super) blocked: Vec<Blocked>,
    /// The same at servers of former days, which say nothing about today's.
    pub(super) former_blocked: Vec<Blocked>,
    pub(super) wait: Duration,
}

impl Draft {
    /// What status said, with what this pass has done since.
    pub(super) fn new(world: &Observed) -> Self {
        let mut status = world.status.clone();
        status.conditions.clear();
        status.ready_replicas = world.deployment.as_ref().map_or(0, |it| it.ready);
        let gone = |id: &String| world.progress.deleted.contains(id);
        status.retiring.retain(|it| !gone(&it.id));
        let mut draft = Self {
            status,
            notes: Vec::new(),
            entitled: false,
            healthy: None,
            orphans: Vec::new(),
            blocked: world.progress.deferred.clone(),
            former_blocked: Vec::new(),
            wait: super::PERMANENT_RETRY,
        };
        if world.status.proxy_id.as_ref().is_some_and(gone) {
            draft.clear_current();
        }
        if let Some(id) = &world.progress.token_stored {
            draft.record_stored_token(id, world);
        }
        if world.progress.display_sent {
            draft.record_display_sent(world);
        }
        draft
    }

    /// The registration in use.
    pub(super) fn current(&self) -> Option<ProxyRegistration> {
        let status = &self.status;
        Some(ProxyRegistration {
            id: status.proxy_id.clone()?,
            name: status.proxy_name.clone()?,
            binding: status.binding.clone()?,
        })
    }

    pub(super) fn clear_current(&mut self) {
        let status = &mut self.status;
        (status.proxy_id, status.proxy_name, status.binding) = (None, None, None);
        (status.described, status.registered) = (None, false);
    }

    /// Makes a registration the one in use; the one before it retires.
    pub(super) fn set_current(&mut self, new: ProxyRegistration, world: &Observed) {
        if self.current().is_some_and(|old| old.id != new.id) {
            self.retire_current(world);
        }
        let status = &mut self.status;
        status.retiring.retain(|it| it.id != new.id);
        status.registered = true;
        status.proxy_id = Some(new.id);
        status.proxy_name = Some(new.name);
        status.binding = Some(new.binding);
    }

    /// The pending name is registered as `found`, and its token is in the Secret.
    pub(super) fn promote_pending(&mut self, found: &WorkspaceProxy, world: &Observed) {
        if let Some(pending) = self.status.pending.take() {
            self.set_current(
                ProxyRegistration {
                    id: found.id.clone(),
                    name: pending.name,
                    binding: pending.binding,
                },
                world,
            );
            self.record_observed_display(found);
            self.record_rotation(world);
        }
    }

    /// A new token of the proxy `id` is in the Secret.
    fn record_stored_token(&mut self, id: &String, world: &Observed) {
        if self.status.proxy_id.as_ref() != Some(id)
            && let Some(pending) = self.status.pending.take()
        {
            let story = format!("proxy {} is registered", pending.name);
            self.notes.push(EventNote::normal("ProxyRegistered", "Register", story));
            self.set_current(
                ProxyRegistration {
                    id: id.clone(),
                    name: pending.name,
                    binding: pending.binding,
                },
                world,
            );
        } else {
            let story = "the proxy has a new token; replacing its pods";
            self.notes.push(EventNote::normal("TokenRotated", "Rotate", story));
        }
        self.record_display_sent(world);
        self.record_rotation(world);
    }

    /// A token is in the Secret that was made after it was asked for.
    pub(super) fn record_rotation(&mut self, world: &Observed) {
        let rotation = &mut self.status.rotation;
        let noted = rotation.asked.take().filter(|it| !it.is_empty());
        rotation.honoured = noted.or_else(|| requested_rotation(&world.object));
        rotation.last = Some(whole_seconds(world.now));
    }

    /// The server was told the looks that the spec asks for.
    fn record_display_sent(&mut self, world: &Observed) {
        let looks = proxy_display(&world.object);
        self.status.described = Some(display_key(&looks.name, &looks.display_name, &looks.icon));
    }

    /// The server has these looks.
    pub(super) fn record_observed_display(&mut self, found: &WorkspaceProxy) {
        self.status.described = Some(display_key(&found.name, &found.display_name, &found.icon));
    }

    pub(super) fn retire_current(&mut self, world: &Observed) {
        if let Some(old) = self.current() {
            self.retire_registration(old, world);
        }
        self.clear_current();
    }

    pub(super) fn retire_registration(&mut self, old: ProxyRegistration, world: &Observed) {
        self.status.retiring.push(RetiringProxy {
            id: old.id,
            name: old.name,
            retired: whole_seconds(world.now),
            binding: old.binding,
        });
    }

    pub(super) fn record_blocked(&mut self, hindrance: &Blocked) {
        self.blocked.push(hindrance.clone());
    }

    /// Notes why something could not be done at the server of `binding`. Whether that is today's.
    pub(super) fn record_blocked_at(&mut self, world: &Observed, at: &ServerBinding, why: &Blocked) -> bool {
        let today = match &world.access {
            Some(Ok(access)) => access.url == at.server_url,
            Some(Err(_)) => true,
            None => false,
        };
        match today {
            true => self.blocked.push(why.clone()),
            false => self.former_blocked.push(why.clone()),
        }
        today
    }

    /// Why it does not go on: the proxy `name` can be neither seen nor taken back at its server.
    pub(super) fn stop_blocked(&mut self, world: &Observed, at: &ServerBinding, name: &str, why: &Blocked) -> Stop {
        let object = &world.object.metadata;
        let leaving = object.deletion_timestamp.is_some();
        // A message about the Secret that is deleted with the namespace does not help here.
        let denied = matches!(world.access, Some(Err(_)));
        if self.record_blocked_at(world, at, why) && !(leaving && denied) {
            return Stop::Blocked(why.clone());
        }
        let story = match why {
            Blocked::Refused(error) if !why.is_transient() => error.to_string(),
            _ => "will retry".to_owned(),
        };
        let story = format!("cannot delete proxy {name} at {} yet: {story}", at.server_url);
        match leaving {
            true => Stop::Deleting(conditions::deletion_waits_message(&story, why, "cwp", object)),
            false => Stop::FormerServer(story),
        }
    }

    /// Gives up on a registration.
    pub(super) fn abandon_registration(&mut self, old: &RetiringProxy) {
        self.status.retiring.retain(|it| it != old);
        self.orphan_registration(&old.binding.server_url, &old.name);
    }

    /// Leaves a registration behind, and says so.
    pub(super) fn orphan_registration(&mut self, server: &str, name: &str) {
        self.notes.push(EventNote::warning(
            "ProxyOrphaned",
            "Abandon",
            format!("proxy {name} was left behind at {server}: delete it there"),
        ));
        self.orphans.push((server.to_owned(), name.to_owned()));
    }

    /// Look again after `span` at the latest.
    pub(super) fn requeue_within(&mut self, span: Duration) {
        self.wait = self.wait.min(span);
    }
}

/// How soon a Secret is looked at again that should have been seen to be kept long since.
const SECRET_RETRY: Duration = Duration::from_secs(15);
/// How soon a server of former days is tried again.
const FORMER_SERVER_RETRY: Duration = Duration::from_secs(60);

/// The plan of a course that ended so.
pub(super) fn build_plan(world: &Observed, mut draft: Draft, ended: Course<()>) -> Plan {
    let mut stop: Option<Box<Stop>> = None;
    let (step, end) = match ended {
        Ok(()) => (None, End::RequeueAfter(draft.wait)),
        Err(Next::Step(step)) => (Some(*step), End::RequeueAfter(Duration::ZERO)),
        Err(Next::Persist) => (None, End::RequeueAfter(Duration::ZERO)),
        Err(Next::Stop(why)) => {
            let end = end_for_stop(world, &draft, &why);
            stop = Some(why);
            (None, end)
        }
    };
    if let Some(Stop::Blocked(hindrance)) = stop.as_deref() {
        draft.blocked.push(hindrance.clone());
    }
    let now = (world.now, world.instant);
    let notes = &mut draft.notes;
    let hindrances = [&*draft.blocked, &*draft.former_blocked].concat();
    let record = &mut draft.status.rate_limited;
    record_rate_limit(&hindrances, world.remembered.throttled, now, record, notes);
    let held = draft.current().is_some_and(|it| has_stored_token(world, &it));
    let given = world.object.spec.bootstrap.is_none();
    draft.status.proxy_token_secret_ref = (held || given).then(|| secret_ref(&world.object));
    let mut conditions = super::conditions::build_conditions(world, &draft, stop.as_deref());
    let ready = conditions
        .iter()
        .any(|it| it.type_ == kinds::READY && it.status == ConditionStatus::True);
    draft.status.phase = Some(if ready { "Ready" } else { "Pending" }.to_owned());
    let end = min_wait(end, &draft, world);
    // What is rejected is not being worked on.
    if matches!(end, End::Rejected { .. }) {
        conditions.retain(|it| it.type_ != RECONCILING);
    }
    Plan {
        status: draft.status,
        conditions,
        notes: draft.notes,
        orphans: draft.orphans,
        needs_secret: stop.as_deref().is_some_and(needs_secret),
        step,
        end,
    }
}

/// The same end, or an earlier one if a blocked call can be retried earlier.
fn min_wait(end: End, draft: &Draft, world: &Observed) -> End {
    let turns = draft.former_blocked.iter().filter(|it| it.class().is_none());
    let ours: Vec<_> = draft.blocked.iter().chain(turns).cloned().collect();
    let mut end = end.min_wait(&ours, world.instant);
    if let (End::RequeueAfter(wait), false) = (&mut end, draft.former_blocked.is_empty()) {
        *wait = (*wait).min(FORMER_SERVER_RETRY);
    }
    end
}

/// How long until it is looked at again, from why it stopped.
fn end_for_stop(world: &Observed, draft: &Draft, stop: &Stop) -> End {
    match stop {
        // It was changed or deleted by another client: the next read shows that.
        Stop::Blocked(it) if it.class() == Some(CallErrorClass::Missing) => End::RequeueAfter(WAITING_MAX_AGE),
        Stop::Blocked(hindrance) => End::from_blocked(hindrance, world.instant, reasons::REGISTRATION_FAILED),
        Stop::Rejected { reason, message } => End::Rejected {
            reason: (*reason).to_owned(),
            message: message.clone(),
        },
        Stop::SecretNotKept => End::RequeueAfter(SECRET_RETRY),
        Stop::Deleting(_) | Stop::FormerServer(_) => End::RequeueAfter(draft.wait),
        Stop::NoAccess | Stop::NoToken | Stop::NotEntitled | Stop::NotSupported => End::RequeueAfter(PERMANENT_RETRY),
    }
}

/// Whether the Secret is to be kept although nothing is written down. A name that is taken is tried
/// again: a finalizer that is removed and added again each time would trigger the object each time.
fn needs_secret(stop: &Stop) -> bool {
    match stop {
        Stop::SecretNotKept => true,
        Stop::Rejected { reason, .. } => *reason == reasons::PROXY_FOREIGN,
        _ => false,
    }
}
