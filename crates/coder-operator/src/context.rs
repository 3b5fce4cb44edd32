//! What all passes share: the servers, what is remembered of objects, and the metrics.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aplomb::{Clock, Error, EventNote, ObjectKey, Trigger};
use aplomb_api::coder::{ServerBinding, reasons};
use k8s_openapi::api::core::v1::Secret;
use tokio::time::Instant;

use crate::access::{Access, AccessDenied, bound_token};
use crate::client::{CallError, CallErrorClass, CoderEndpoint, CreatedKey, Entitlements};
use crate::ending::PERMANENT_RETRY;
use crate::hindrance::{Blocked, CallResult, new_blocked};
use crate::object::Object;
use crate::pushback::Pushback;
use crate::children_state::RememberedState;
use crate::server::{BypassState, Caller, MaxAge, ServerClient, ServerPool, Timestamped};
use crate::telemetry::{CoderMetrics, ObjectRemoved};

/// How long a refusal that only a person can mend is not asked for again.
const REFUSAL_TTL: Duration = Duration::from_secs(600);
/// And one of what somebody may just be about to make.
const NOT_FOUND_TTL: Duration = Duration::from_secs(120);
/// And one of a server that did not answer a look.
const NO_ANSWER_TTL: Duration = Duration::from_secs(15);

/// What all passes share. Clones are the same office.
#[derive(Clone)]
pub(crate) struct CoderContext {
    pub(crate) servers: ServerPool,
    pub(crate) telemetry: CoderMetrics,
    pub(crate) clock: Clock,
    /// The only namespace that is looked at.
    pub(crate) namespace: Option<String>,
    /// Runs a CoderProvisioner when its turn has come.
    pub(crate) provisioners: Trigger,
    /// Runs a CoderWorkspaceProxy when its turn has come.
    pub(crate) proxies: Trigger,
    /// Has a Secret looked at that a record is about to need.
    pub(crate) secrets: Trigger,
    pub(crate) states: ObjectStates,
}

impl CoderContext {
    /// The server that an access leads to.
    fn connect(&self, access: &Access) -> Result<ServerClient, String> {
        let ca = access.ca.as_deref();
        self.servers.client(&access.url, ca, &access.token)
    }

    /// The server of a binding: today's where it is that one, else with the token that was bound to it.
    pub(crate) fn server_for_binding(
        &self,
        access: Option<&Access>,
        binding: &ServerBinding,
        namespace: &str,
        secrets: &aplomb::Cache<Secret>,
    ) -> aplomb::Result<ServerClient> {
        if let Some(today) = access.filter(|it| it.url == binding.server_url) {
            return self.connect(today).map_err(Error::fault);
        }
        let token = bound_token(namespace, binding, secrets);
        let token =
            token.ok_or_else(|| Error::fault("a binding without its token was decided on"))?;
        let ca = binding.ca_bundle.as_deref();
        let server = self.servers.client(&binding.server_url, ca, &token);
        server.map_err(Error::fault)
    }

    /// What a server's licence allows: one answer, or one refusal, for everybody who has the same token.
    pub(crate) async fn entitlements(
        &self,
        server: &ServerClient,
        binding: &ServerBinding,
        asker: &Caller<'_>,
    ) -> CallResult<Arc<Timestamped<Entitlements>>> {
        let ServerBinding {
            server_url,
            token_fingerprint,
            ..
        } = binding;
        let subject = format!("entitlements {server_url} {token_fingerprint}");
        let call = server.entitlements(asker, MaxAge::Within(PERMANENT_RETRY));
        self.unless_cached_refusal(CoderEndpoint::Entitlements, &subject, call)
            .await
    }

    /// Asks, unless the same was refused a while ago and nothing that matters changed since.
    pub(crate) async fn unless_cached_refusal<T>(
        &self,
        endpoint: CoderEndpoint,
        subject: &str,
        call: impl Future<Output = Result<T, Pushback>>,
    ) -> CallResult<T> {
        if let Some(error) = self.states.cached_refusal(subject, Instant::now()) {
            return Err(Blocked::Refused(error));
        }
        call.await.map_err(|pushback| {
            if let Pushback::Refused(error) = &pushback {
                self.states.cache_refusal(endpoint, subject, error, Instant::now());
            }
            new_blocked(endpoint, pushback)
        })
    }

    /// The same access, if a connection can be made as it says.
    pub(crate) fn check_reachable(&self, access: Access) -> Result<Access, AccessDenied> {
        match self.connect(&access) {
            Ok(_) => Ok(access),
            Err(why) => Err(AccessDenied {
                server_missing: true,
                reason: reasons::INVALID_CA_BUNDLE,
                message: format!("{} cannot be reached as the spec says: {why}", access.url),
            }),
        }
    }

    /// What a person who asked for the bypass should know of it, once.
    pub(crate) fn bypass_note(&self, who: &Object, access: &Access) -> Option<EventNote> {
        let server = self.connect(access).ok()?;
        let stands = server.bypass_state();
        let story = match stands {
            BypassState::Untried | BypassState::Works => None,
            BypassState::Refused => Some((
                "BypassRefused",
                "the server refuses bypassRateLimit: only the token of an owner may ask for it; calls are \
                 counted as usual",
            )),
            BypassState::Ineffective => Some((
                "BypassIneffective",
                "the server heeds no bypassRateLimit: it is older than 2.32; calls are counted as usual",
            )),
        };
        let news = self.states.bypass_changed(who, stands);
        let (reason, story) = story.filter(|_| news)?;
        Some(EventNote::warning(reason, "Call", story))
    }

    /// An object waits until this Secret is kept for it, or for none.
    pub(crate) fn request_secret(&self, who: &Object, secret: Option<ObjectKey>) {
        self.states.set_requested_secret(who, secret.clone());
        if let Some(secret) = secret {
            self.secrets.poke(&secret);
        }
    }

    /// What is remembered of an object, as far as the leader of this `term` may rely on it.
    pub(crate) fn remembered_state(&self, who: &Object, term: u64) -> RememberedState {
        RememberedState {
            unrequested_name: self.states.unrequested_name(who, term),
            unsaved_key: self.states.unsaved_key(who).map(|(name, _)| name),
            throttled: self.servers.is_throttled(who),
        }
    }

    /// Lets go of an object that is gone.
    pub(crate) fn on_deleted(&self, who: &Object) {
        self.servers.remove(who);
        let wanted = self.states.remove(who);
        wanted.into_iter().for_each(|it| self.secrets.poke(&it));
        self.telemetry.emit(ObjectRemoved { object: who });
    }
}

impl fmt::Debug for CoderContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Office").finish_non_exhaustive()
    }
}

/// What this process remembers. Losing it costs a look, never a key.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObjectStates(Arc<Mutex<Papers>>);

#[derive(Debug, Default)]
struct Papers {
    objects: BTreeMap<Object, Sheet>,
    refusals: BTreeMap<String, Standing>,
}

/// What is remembered of one object.
#[derive(Clone, Debug, Default)]
struct Sheet {
    unrequested_name: Option<(String, u64)>,
    unsaved_key: Option<(String, CreatedKey)>,
    bypass: BypassState,
    requested_secret: Option<ObjectKey>,
}

#[derive(Debug)]
struct Standing {
    error: CallError,
    until: Instant,
}

impl ObjectStates {
    fn with_state<T>(&self, work: impl FnOnce(&mut Papers) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The name that is written down and was certainly not asked for yet, as far as the leader of this
    /// `term` can tell: whoever led in between may have asked.
    pub(crate) fn unrequested_name(&self, who: &Object, term: u64) -> Option<String> {
        let noted = self.with_state(|it| it.objects.get(who)?.unrequested_name.clone());
        noted
            .filter(|(_, then)| *then == term)
            .map(|(name, _)| name)
    }

    /// Notes that `name` is written down and not asked for, or that this can no longer be told.
    pub(crate) fn set_unrequested_name(&self, who: &Object, name: Option<String>, term: u64) {
        let noted = name.map(|name| (name, term));
        self.with_state(|it| it.objects.entry(who.clone()).or_default().unrequested_name = noted);
    }

    /// A plaintext that is not yet in its Secret, with the name of its key.
    pub(crate) fn unsaved_key(&self, who: &Object) -> Option<(String, CreatedKey)> {
        self.with_state(|it| it.objects.get(who)?.unsaved_key.clone())
    }

    pub(crate) fn set_unsaved_key(&self, who: &Object, key: Option<(String, CreatedKey)>) {
        self.with_state(|it| it.objects.entry(who.clone()).or_default().unsaved_key = key);
    }

    /// Notes the Secret whose token an object is about to need, or that it needs none.
    fn set_requested_secret(&self, who: &Object, secret: Option<ObjectKey>) {
        self.with_state(|it| match (secret, it.objects.get_mut(who)) {
            (secret, Some(sheet)) => sheet.requested_secret = secret,
            (None, None) => {}
            (wanted, None) => {
                let sheet = Sheet {
                    requested_secret: wanted,
                    ..Sheet::default()
                };
                it.objects.insert(who.clone(), sheet);
            }
        });
    }

    /// Whether an object is about to need the token in a Secret.
    pub(crate) fn is_secret_requested(&self, secret: &ObjectKey) -> bool {
        self.with_state(|it| {
            it.objects
                .values()
                .any(|sheet| sheet.requested_secret.as_ref() == Some(secret))
        })
    }

    /// Whether it is news to an object that the bypass it asks for stands so.
    pub(crate) fn bypass_changed(&self, who: &Object, bypass: BypassState) -> bool {
        self.with_state(|it| {
            let known = &mut it.objects.entry(who.clone()).or_default().bypass;
            std::mem::replace(known, bypass) != bypass
        })
    }

    /// The refusal of `what` that still stands.
    pub(crate) fn cached_refusal(&self, what: &str, now: Instant) -> Option<CallError> {
        self.with_state(|it| {
            it.refusals.retain(|_, standing| standing.until > now);
            it.refusals.get(what).map(|standing| standing.error.clone())
        })
    }

    /// Remembers a refusal that nothing but a person's doing ends. `what` must name everything that such
    /// a doing changes.
    pub(crate) fn cache_refusal(
        &self,
        endpoint: CoderEndpoint,
        what: &str,
        error: &CallError,
        now: Instant,
    ) {
        let span = match error.class {
            CallErrorClass::Invalid | CallErrorClass::Token | CallErrorClass::Forbidden => REFUSAL_TTL,
            CallErrorClass::Missing if endpoint == CoderEndpoint::Organization => NOT_FOUND_TTL,
            CallErrorClass::Missing => REFUSAL_TTL,
            // One look of all objects tells whether the server is back.
            CallErrorClass::Server | CallErrorClass::NoAnswer if endpoint.is_read() => NO_ANSWER_TTL,
            _ => return,
        };
        let standing = Standing {
            error: error.clone(),
            until: now + span,
        };
        self.with_state(|it| it.refusals.insert(what.to_owned(), standing));
    }

    /// Lets go of an object; the Secret that it was about to need.
    fn remove(&self, who: &Object) -> Option<ObjectKey> {
        self.with_state(|it| it.objects.remove(who)?.requested_secret)
    }
}
