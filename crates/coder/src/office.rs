//! What all passes share: the servers, what is remembered of objects, and the metrics.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aplomb::{Clock, Note, Poke};
use aplomb_api::coder::reasons;
use tokio::time::Instant;

use crate::access::{Access, Denied};
use crate::client::{CallError, Class, NewKey};
use crate::object::Object;
use crate::server::{Bypass, Server, Servers};
use crate::telemetry::{Coder, Gone};

/// How long a refusal that only a person can mend is not asked for again.
const STANDING: Duration = Duration::from_secs(600);
/// And one of what somebody may just be about to make.
const MISSING: Duration = Duration::from_secs(120);

/// What all passes share. Clones are the same office.
#[derive(Clone)]
pub(crate) struct Office {
    pub(crate) servers: Servers,
    pub(crate) telemetry: Coder,
    pub(crate) clock: Clock,
    /// The only namespace that is looked at.
    pub(crate) namespace: Option<String>,
    /// Runs a CoderProvisioner when its turn has come.
    pub(crate) provisioners: Poke,
    /// Runs a CoderWorkspaceProxy when its turn has come.
    pub(crate) proxies: Poke,
    pub(crate) desk: Desk,
}

impl Office {
    /// The same access, if a connection can be made as it says.
    pub(crate) fn reachable(&self, access: Access) -> Result<Access, Denied> {
        match self
            .servers
            .at(&access.url, access.ca.as_deref(), &access.token)
        {
            Ok(_) => Ok(access),
            Err(why) => Err(Denied {
                no_server: true,
                reason: reasons::INVALID_CA_BUNDLE,
                message: format!("{} cannot be reached as the spec says: {why}", access.url),
            }),
        }
    }

    /// What a person who asked for the bypass should know of it, once.
    pub(crate) fn bypass(&self, who: &Object, server: &Server) -> Option<Note> {
        let stands = server.bypass();
        let story = match stands {
            Bypass::Untried | Bypass::Works => None,
            Bypass::Refused => Some((
                "BypassRefused",
                "the server refuses bypassRateLimit: only the token of an owner may ask for it; calls are \
                 counted as usual",
            )),
            Bypass::Ineffective => Some((
                "BypassIneffective",
                "the server heeds no bypassRateLimit: it is older than 2.32; calls are counted as usual",
            )),
        };
        let news = self.desk.learns(who, stands);
        let (reason, story) = story.filter(|_| news)?;
        Some(Note::warning(reason, "Call", story))
    }

    /// Lets go of an object that is gone.
    pub(crate) fn forget(&self, who: &Object) {
        self.servers.forget(who);
        self.desk.forget(who);
        self.telemetry.emit(Gone { object: who });
    }
}

impl fmt::Debug for Office {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Office").finish_non_exhaustive()
    }
}

/// What this process remembers. Losing it costs a look, never a key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Desk(Arc<Mutex<Papers>>);

#[derive(Debug, Default)]
struct Papers {
    objects: BTreeMap<Object, Sheet>,
    refusals: BTreeMap<String, Standing>,
}

/// What is remembered of one object.
#[derive(Clone, Debug, Default)]
struct Sheet {
    unasked: Option<String>,
    in_hand: Option<(String, NewKey)>,
    bypass: Bypass,
}

#[derive(Debug)]
struct Standing {
    error: CallError,
    until: Instant,
}

impl Desk {
    fn with<T>(&self, work: impl FnOnce(&mut Papers) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The name that is written down was certainly not asked for yet.
    pub(crate) fn unasked(&self, who: &Object) -> Option<String> {
        self.with(|it| it.objects.get(who)?.unasked.clone())
    }

    /// Notes that `name` is written down and not asked for, or that this can no longer be told.
    pub(crate) fn set_unasked(&self, who: &Object, name: Option<String>) {
        self.with(|it| it.objects.entry(who.clone()).or_default().unasked = name);
    }

    /// A plaintext that is not yet in its Secret, with the name of its key.
    pub(crate) fn in_hand(&self, who: &Object) -> Option<(String, NewKey)> {
        self.with(|it| it.objects.get(who)?.in_hand.clone())
    }

    pub(crate) fn set_in_hand(&self, who: &Object, key: Option<(String, NewKey)>) {
        self.with(|it| it.objects.entry(who.clone()).or_default().in_hand = key);
    }

    /// Whether it is news to an object that the bypass it asks for stands so.
    pub(crate) fn learns(&self, who: &Object, bypass: Bypass) -> bool {
        self.with(|it| {
            let known = &mut it.objects.entry(who.clone()).or_default().bypass;
            std::mem::replace(known, bypass) != bypass
        })
    }

    /// The refusal of `what` that still stands.
    pub(crate) fn standing(&self, what: &str, now: Instant) -> Option<CallError> {
        self.with(|it| {
            it.refusals.retain(|_, standing| standing.until > now);
            it.refusals.get(what).map(|standing| standing.error.clone())
        })
    }

    /// Remembers a refusal that nothing but a person's doing ends. `what` must name everything that such
    /// a doing changes.
    pub(crate) fn stand(&self, what: &str, error: &CallError, now: Instant) {
        let span = match error.class {
            Class::Invalid | Class::Token | Class::Forbidden => STANDING,
            Class::Missing => MISSING,
            _ => return,
        };
        let standing = Standing {
            error: error.clone(),
            until: now + span,
        };
        self.with(|it| it.refusals.insert(what.to_owned(), standing));
    }

    fn forget(&self, who: &Object) {
        self.with(|it| it.objects.remove(who));
    }
}
