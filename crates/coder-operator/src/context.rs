//! State shared by all reconciles: servers, in-memory state of objects, and metrics.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aplomb::{Clock, Error, EventNote, ObjectKey, ObjectRef, Trigger};
use aplomb_api::coder::{ServerBinding, reasons};
use k8s_openapi::api::core::v1::Secret;
use tokio::time::Instant;

use crate::access::{Access, AccessDenied, bound_token};
use crate::blocked::{Blocked, CallResult, PERMANENT_RETRY, Pushback, new_blocked};
use crate::children_state::RememberedState;
use crate::client::{CallError, CallErrorClass, CoderEndpoint, CreatedKey, Entitlements};
use crate::server::{BypassState, Caller, MaxAge, ServerClient, ServerPool, Timestamped};
use crate::telemetry::{CoderMetrics, ObjectRemoved};

/// How long a refusal that only a person can fix is cached.
const REFUSAL_TTL: Duration = Duration::from_secs(600);
/// How long the absence of something that is likely to be created soon is cached.
const NOT_FOUND_TTL: Duration = Duration::from_secs(120);
/// How long a failed read of a server is cached.
const NO_ANSWER_TTL: Duration = Duration::from_secs(15);

/// State shared by all reconciles. Clones share it.
#[derive(Clone)]
pub(crate) struct CoderContext {
    pub(crate) servers: ServerPool,
    pub(crate) telemetry: CoderMetrics,
    pub(crate) clock: Clock,
    /// The only namespace to watch.
    pub(crate) namespace: Option<String>,
    /// Triggers a CoderProvisioner when its call may be made.
    pub(crate) provisioners: Trigger,
    /// Triggers a CoderWorkspaceProxy when its call may be made.
    pub(crate) proxies: Trigger,
    /// Triggers the controller of token Secrets for a Secret that a record is about to need.
    pub(crate) secrets: Trigger,
    pub(crate) states: ObjectStates,
}

impl CoderContext {
    /// The client of a server and token.
    fn connect(&self, access: &Access) -> Result<ServerClient, String> {
        let ca = access.ca.as_deref();
        self.servers.client(&access.url, ca, &access.token)
    }

    /// The client for a binding: with the current token if the server is the same, otherwise with
    /// the token that it was bound to.
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
        let token = token.ok_or_else(|| Error::fault("internal error: no token for this binding"))?;
        let ca = binding.ca_bundle.as_deref();
        let server = self.servers.client(&binding.server_url, ca, &token);
        server.map_err(Error::fault)
    }

    /// The license state of a server: one response or refusal for all objects with the same token.
    pub(crate) async fn entitlements(
        &self,
        server: &ServerClient,
        binding: &ServerBinding,
        asker: &Caller<'_>,
    ) -> CallResult<Arc<Timestamped<Entitlements>>> {
        let subject = refusal_key("entitlements", binding);
        let call = server.entitlements(asker, MaxAge::Within(PERMANENT_RETRY));
        self.unless_cached_refusal(CoderEndpoint::Entitlements, &subject, call)
            .await
    }

    /// Calls the server unless the same call was refused recently and nothing relevant has changed
    /// since.
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

    /// The same access, if a connection with its settings is possible.
    pub(crate) fn check_reachable(&self, access: Access) -> Result<Access, AccessDenied> {
        match self.connect(&access) {
            Ok(_) => Ok(access),
            Err(why) => Err(AccessDenied {
                server_missing: true,
                reason: reasons::INVALID_CA_BUNDLE,
                message: format!("cannot connect to {} with these settings: {why}", access.url),
            }),
        }
    }

    /// The Event about the state of the bypass, once per state.
    pub(crate) fn bypass_note(&self, who: &ObjectRef, access: &Access) -> Option<EventNote> {
        let server = self.connect(access).ok()?;
        let stands = server.bypass_state();
        let story = match stands {
            BypassState::Untried | BypassState::Works => None,
            BypassState::Refused => Some((
                "BypassRefused",
                "the server refused bypassRateLimit, which needs an owner's token; calls are \
                 counted as usual",
            )),
            BypassState::Ineffective => Some((
                "BypassIneffective",
                "the server ignores bypassRateLimit, which needs Coder 2.32; calls are counted as usual",
            )),
        };
        let news = self.states.bypass_changed(who, stands);
        let (reason, story) = story.filter(|_| news)?;
        Some(EventNote::warning(reason, "Call", story))
    }

    /// Records that an object waits until this Secret has the finalizer, or no Secret.
    pub(crate) fn request_secret(&self, who: &ObjectRef, secret: Option<ObjectKey>) {
        self.states.set_requested_secret(who, secret.clone());
        if let Some(secret) = secret {
            self.secrets.enqueue(&secret);
        }
    }

    /// The state of an object, as far as the leader of this `term` may rely on it.
    pub(crate) fn remembered_state(&self, who: &ObjectRef, term: u64) -> RememberedState {
        RememberedState {
            unrequested_name: self.states.unrequested_name(who, term),
            unsaved_key: self.states.unsaved_key(who).map(|(name, _)| name),
            throttled: self.servers.is_throttled(who),
        }
    }

    /// Removes the state of a deleted object.
    pub(crate) fn on_deleted(&self, who: &ObjectRef) {
        self.servers.remove(who);
        let wanted = self.states.remove(who);
        wanted.into_iter().for_each(|it| self.secrets.enqueue(&it));
        self.telemetry.emit(ObjectRemoved { object: who });
    }
}

/// The subject of a cached refusal of `what`: another token makes another subject.
pub(crate) fn refusal_key(what: &str, binding: &ServerBinding) -> String {
    format!("{what} {} {}", binding.server_url, binding.token_fingerprint)
}

/// In-memory state. Losing it costs a read, never a key.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObjectStates(Arc<Mutex<Papers>>);

#[derive(Debug, Default)]
struct Papers {
    objects: BTreeMap<ObjectRef, Sheet>,
    refusals: BTreeMap<String, Standing>,
}

/// In-memory state of one object.
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

    /// The name in the status that was certainly not requested yet, as far as the leader of this
    /// `term` knows: another leader in between may have requested it.
    pub(crate) fn unrequested_name(&self, who: &ObjectRef, term: u64) -> Option<String> {
        let noted = self.with_state(|it| it.objects.get(who)?.unrequested_name.clone());
        noted.filter(|(_, then)| *then == term).map(|(name, _)| name)
    }

    /// Records that `name` is in the status and was not requested, or that this is unknown now.
    pub(crate) fn set_unrequested_name(&self, who: &ObjectRef, name: Option<String>, term: u64) {
        let noted = name.map(|name| (name, term));
        self.with_state(|it| it.objects.entry(who.clone()).or_default().unrequested_name = noted);
    }

    /// A plaintext that is not in its Secret yet, with the name of its key.
    pub(crate) fn unsaved_key(&self, who: &ObjectRef) -> Option<(String, CreatedKey)> {
        self.with_state(|it| it.objects.get(who)?.unsaved_key.clone())
    }

    pub(crate) fn set_unsaved_key(&self, who: &ObjectRef, key: Option<(String, CreatedKey)>) {
        self.with_state(|it| it.objects.entry(who.clone()).or_default().unsaved_key = key);
    }

    /// Records the Secret whose token an object is about to need, or none.
    fn set_requested_secret(&self, who: &ObjectRef, secret: Option<ObjectKey>) {
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

    /// Whether the state of the bypass is new for an object.
    pub(crate) fn bypass_changed(&self, who: &ObjectRef, bypass: BypassState) -> bool {
        self.with_state(|it| {
            let known = &mut it.objects.entry(who.clone()).or_default().bypass;
            std::mem::replace(known, bypass) != bypass
        })
    }

    /// The cached refusal of `what`.
    pub(crate) fn cached_refusal(&self, what: &str, now: Instant) -> Option<CallError> {
        self.with_state(|it| {
            it.refusals.retain(|_, standing| standing.until > now);
            it.refusals.get(what).map(|standing| standing.error.clone())
        })
    }

    /// Caches a refusal that only a person can end. `what` must include everything that the person
    /// would change.
    pub(crate) fn cache_refusal(&self, endpoint: CoderEndpoint, what: &str, error: &CallError, now: Instant) {
        let span = match error.class {
            CallErrorClass::Invalid | CallErrorClass::Token | CallErrorClass::Forbidden => REFUSAL_TTL,
            CallErrorClass::Missing if endpoint == CoderEndpoint::Organization => NOT_FOUND_TTL,
            CallErrorClass::Missing => REFUSAL_TTL,
            // One read of any object shows that the server is back.
            CallErrorClass::Server | CallErrorClass::NoAnswer if endpoint.is_read() => NO_ANSWER_TTL,
            _ => return,
        };
        let standing = Standing {
            error: error.clone(),
            until: now + span,
        };
        self.with_state(|it| it.refusals.insert(what.to_owned(), standing));
    }

    /// Removes an object. Returns the Secret that it was about to need.
    fn remove(&self, who: &ObjectRef) -> Option<ObjectKey> {
        self.with_state(|it| it.objects.remove(who)?.requested_secret)
    }
}
