//! A decision while it is being made: the status so far, and where its course ends.

use std::time::Duration;

use aplomb::EventNote;
use aplomb::conditions::{ConditionStatus, RECONCILING};
use aplomb_api::coder::{CoderProvisionerStatus, KeyRecord, RetiringKey, conditions as kinds, reasons};
use jiff::Timestamp;

use super::conditions::build_conditions;
use super::{PERMANENT_RETRY, secret_ref};
use crate::blocked::{Blocked, End, record_rate_limit};
use crate::client::{CallErrorClass, ProvisionerKey};
use crate::conditions::whole_seconds;
use crate::provisioner::{Observed, Plan, Step};

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
    NotEntitled,
    NotSupported,
    NoOrganization,
    /// The Secret with the token is not kept yet: what is made now could not be taken back without it.
    SecretNotKept,
    Blocked(Blocked),
    Rejected {
        reason: &'static str,
        message: String,
    },
    /// It is being deleted, and something is waited for.
    Deleting(String),
}

impl Stop {
    pub(super) fn rejected(reason: &'static str, message: String) -> Self {
        Self::Rejected { reason, message }
    }

    /// Whether it goes on without intervention when its turn has come.
    pub(super) fn is_queued(&self) -> bool {
        let Self::Blocked(Blocked::Later { limited, .. }) = self else {
            return false;
        };
        !limited
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
    pub(super) status: CoderProvisionerStatus,
    pub(super) notes: Vec<EventNote>,
    pub(super) entitled: bool,
    /// How the question of the license was refused.
    pub(super) entitlement_refusal: Option<CallErrorClass>,
    /// How many daemons are connected with the key in use, if that could be seen.
    pub(super) connected: Option<u32>,
    /// The same with those of keys that are being replaced: they work as well.
    pub(super) serving: Option<u32>,
    /// Keys that are left behind.
    pub(super) orphans: Vec<KeyRecord>,
    /// What could not be done although the course went on.
    pub(super) blocked: Vec<Blocked>,
    /// The same at servers of former days, which say nothing about today's.
    pub(super) former_blocked: Vec<Blocked>,
    /// Why the course ends where it does although it went on.
    pub(super) deferred_stop: Option<Box<Stop>>,
    pub(super) wait: Duration,
}

impl Draft {
    /// What status said, with what this pass has done since.
    pub(super) fn new(world: &Observed) -> Self {
        let mut status = world.status.clone();
        status.conditions.clear();
        status.ready_replicas = world.deployment.as_ref().map_or(0, |it| it.ready);
        let gone = |it: &KeyRecord| world.progress.deleted.iter().any(|gone| same_key(gone, it));
        status.retiring.retain(|it| !gone(&it.key));
        status.key = status.key.filter(|it| !gone(it));
        status.pending = status.pending.filter(|it| !gone(it));
        let mut draft = Self {
            status,
            notes: Vec::new(),
            entitled: false,
            entitlement_refusal: None,
            connected: None,
            serving: None,
            orphans: Vec::new(),
            blocked: world.progress.deferred.clone(),
            former_blocked: Vec::new(),
            deferred_stop: None,
            wait: super::PERMANENT_RETRY,
        };
        if let Some((name, at)) = &world.progress.created {
            draft.promote_key(name, *at, world);
        }
        draft
    }

    /// The key called `name` is in the Secret: it is the one in use, and the one before it retires.
    pub(super) fn promote_key(&mut self, name: &str, at: Timestamp, world: &Observed) {
        let Some(pending) = self.status.pending.take_if(|it| it.name == name) else {
            return;
        };
        let new = KeyRecord {
            since: whole_seconds(at),
            ..pending
        };
        if let Some(old) = self.status.key.take() {
            self.notes.push(EventNote::normal(
                "KeyRotated",
                "Rotate",
                format!(
                    "key {} is in the Secret and replaces {}, which is deleted once no daemon uses it",
                    new.name, old.name
                ),
            ));
            self.retire_key(old, true, world);
        }
        let rotation = &mut self.status.rotation;
        rotation.last = Some(whole_seconds(world.now));
        rotation.honoured = rotation.asked.take();
        self.status.key = Some(new);
        // Others are to connect now.
        self.status.disconnected_since = None;
    }

    pub(super) fn retire_key(&mut self, key: KeyRecord, used: bool, world: &Observed) {
        self.status.retiring.push(RetiringKey {
            key,
            retired: whole_seconds(world.now),
            replaced: None,
            used,
        });
    }

    /// Notes how many daemons are connected.
    pub(super) fn count_daemons(&mut self, world: &Observed, connected: u32, serving: u32) {
        let wanted = u32::try_from(world.object.spec.replicas).unwrap_or(0);
        (self.connected, self.serving) = (Some(connected), Some(serving));
        self.status.daemons = Some(format!("{serving}/{wanted}"));
        match connected >= wanted {
            true => self.status.disconnected_since = None,
            false => {
                let since = &mut self.status.disconnected_since;
                since.get_or_insert_with(|| whole_seconds(world.now));
            }
        }
    }

    /// Notes what the server calls the key in use. Another id under its name is another key.
    pub(super) fn record_key_id(&mut self, found: &ProvisionerKey) {
        let key = self.status.key.as_mut();
        if let Some(key) = key.filter(|it| it.name == found.name && it.id.is_none()) {
            key.id = found.known_id();
        }
    }

    pub(super) fn has_finalizer(&self, world: &Observed) -> bool {
        world.progress.finalized || super::has_finalizer(world)
    }

    /// Whether nothing is under way that daemons have a part in.
    pub(super) fn is_idle(&self, world: &Observed) -> bool {
        let connected = world.status.daemons.is_some();
        connected && self.status.retiring.is_empty() && self.status.key == world.status.key
    }

    pub(super) fn record_blocked(&mut self, hindrance: &Blocked) {
        self.blocked.push(hindrance.clone());
    }

    /// Leaves a key behind, and says so.
    pub(super) fn orphan_key(&mut self, key: KeyRecord) {
        let KeyRecord { name, binding, .. } = &key;
        let server = &binding.server_url;
        self.notes.push(EventNote::warning(
            "KeyOrphaned",
            "Abandon",
            format!("key {name} was left behind at {server}: delete it there"),
        ));
        self.orphans.push(key);
    }

    /// Reports that a name belongs to another key.
    pub(super) fn note_foreign(&mut self, name: &str) {
        let story = format!("the server has a key {name} that this object did not create: not using or deleting it");
        self.notes.push(EventNote::warning("KeyNotOurs", "Create", story));
    }

    /// Notes why something could not be done at the server of `key`.
    pub(super) fn record_blocked_at(&mut self, world: &Observed, key: &KeyRecord, hindrance: &Blocked) {
        let today = world.access.as_ref().ok();
        match today.is_none_or(|it| it.url == key.binding.server_url) {
            true => self.blocked.push(hindrance.clone()),
            false => self.former_blocked.push(hindrance.clone()),
        }
    }

    /// Look again after `span` at the latest.
    pub(super) fn requeue_within(&mut self, span: Duration) {
        self.wait = self.wait.min(span);
    }

    pub(super) fn note_restart(&mut self) {
        let story = "restarting pods that have run for minutes without a connection to the server";
        self.notes
            .push(EventNote::warning("DaemonsRestarted", "Restart", story));
    }
}

/// Whether two records are of one key: names are never used twice.
pub(super) fn same_key(one: &KeyRecord, other: &KeyRecord) -> bool {
    one.name == other.name
        && one.organization_id == other.organization_id
        && one.binding.server_url == other.binding.server_url
}

/// How soon a server of former days is tried again.
const FORMER_SERVER_RETRY: Duration = Duration::from_secs(60);
/// How soon a Secret is looked at again that should have been seen to be kept long since.
const SECRET_RETRY: Duration = Duration::from_secs(15);
/// How soon an organization that is missing is asked for again.
const ORGANIZATION_RETRY: Duration = Duration::from_secs(120);

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
        draft.record_blocked(&hindrance.clone());
    }
    let now = (world.now, world.instant);
    let notes = &mut draft.notes;
    let hindrances = [&*draft.blocked, &*draft.former_blocked].concat();
    let record = &mut draft.status.rate_limited;
    record_rate_limit(&hindrances, world.remembered.throttled, now, record, notes);
    copy_summary(&mut draft, world);
    let mut conditions = build_conditions(world, &draft, stop.as_deref());
    let ready = conditions
        .iter()
        .any(|it| it.type_ == kinds::READY && it.status == ConditionStatus::True);
    draft.status.phase = Some(if ready { "Ready" } else { "Pending" }.to_owned());
    let mut end = end.min_wait(&draft.blocked, world.instant);
    if let (End::RequeueAfter(wait), false) = (&mut end, draft.former_blocked.is_empty()) {
        *wait = (*wait).min(FORMER_SERVER_RETRY);
    }
    if matches!(end, End::Rejected { .. }) {
        conditions.retain(|it| it.type_ != RECONCILING);
    }
    Plan {
        status: draft.status,
        conditions,
        notes: draft.notes,
        connected: draft.serving,
        orphans: draft.orphans,
        needs_secret: matches!(stop.as_deref(), Some(Stop::SecretNotKept)),
        step,
        end,
    }
}

/// How long until it is looked at again, from why it stopped.
fn end_for_stop(world: &Observed, draft: &Draft, stop: &Stop) -> End {
    match stop {
        Stop::Blocked(hindrance) => End::from_blocked(hindrance, world.instant, reasons::KEY_FAILED),
        Stop::Rejected { reason, message } => End::Rejected {
            reason: (*reason).to_owned(),
            message: message.clone(),
        },
        Stop::NoOrganization => End::RequeueAfter(ORGANIZATION_RETRY),
        Stop::SecretNotKept => End::RequeueAfter(SECRET_RETRY),
        Stop::Deleting(_) => End::RequeueAfter(draft.wait),
        Stop::NoAccess | Stop::NotEntitled | Stop::NotSupported => End::RequeueAfter(PERMANENT_RETRY),
    }
}

/// Repeats at the top of the status what people look for.
fn copy_summary(draft: &mut Draft, world: &Observed) {
    let status = &mut draft.status;
    let key = status.key.clone();
    status.provisioner_key_name = key.as_ref().map(|it| it.name.clone());
    status.provisioner_key_id = key.as_ref().and_then(|it| it.id.clone());
    status.tags_hash = key.as_ref().map(|it| it.tags_hash.clone());
    status.secret_ref = key.map(|_| secret_ref(&world.object));
}
