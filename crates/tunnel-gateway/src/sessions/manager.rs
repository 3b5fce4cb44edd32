//! The sessions that are kept: one for each connector that the routing table names.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aplomb::tasks::TaskHandle;
use aplomb::{ObjectKey, Tasks};
use aplomb_api::tunnel::LostSession;
use futures::future::BoxFuture;
use iroh::Endpoint;
use iroh::endpoint::Connection;
use tokio::time::{Instant, timeout_at};

use super::AgentSessions;
use super::session::{self, SessionState, Shared};
use crate::control::inputs::SessionTarget;
use crate::routing::AgentTarget;

/// Keeps sessions. Clones share them.
#[derive(Clone)]
pub struct SessionManager(Arc<Inner>);

struct Inner {
    endpoint: Endpoint,
    tasks: Tasks,
    on_change: Arc<dyn Fn() + Send + Sync>,
    sessions: Mutex<BTreeMap<ObjectKey, ManagedSession>>,
}

struct ManagedSession {
    shared: Arc<Shared>,
    _task: TaskHandle<()>,
}

impl SessionManager {
    /// Keeps sessions of `endpoint`; `changed` is called when one is lost or found again.
    pub fn new(endpoint: Endpoint, tasks: Tasks, changed: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner {
            endpoint,
            tasks,
            on_change: Arc::new(changed),
            sessions: Mutex::default(),
        }))
    }

    /// The session with a connector, other than `dead`, and the Connector it was opened for; waited for until then.
    pub(super) async fn connection(
        &self,
        key: &ObjectKey,
        dead: Option<usize>,
        until: Instant,
    ) -> Option<(Connection, Arc<AgentTarget>)> {
        let shared = self.lock_sessions().get(key)?.shared.clone();
        let mut state = shared.state.subscribe();
        shared.wake.notify_one();
        // One that was opened for a Connector of the same name that is gone is about to end.
        let meant = |uid: &str| shared.target.borrow().target.uid == uid;
        let up = state.wait_for(|state| match state {
            SessionState::Up(connection, target) => Some(connection.stable_id()) != dead && meant(&target.uid),
            SessionState::Down { released, .. } => *released,
        });
        let found = timeout_at(until, up).await.ok()?.ok()?.clone();
        match found {
            SessionState::Up(connection, target) => Some((connection, target)),
            SessionState::Down { .. } => None,
        }
    }

    fn start_session(&self, wanted: &SessionTarget) -> ManagedSession {
        let shared = Arc::new(Shared::new(wanted.clone()));
        let inner = &self.0;
        let kept = session::run_session(inner.endpoint.clone(), shared.clone(), inner.on_change.clone());
        ManagedSession {
            _task: inner.tasks.spawn(kept),
            shared,
        }
    }

    fn lock_sessions(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, ManagedSession>> {
        self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AgentSessions for SessionManager {
    fn set_targets(&self, wanted: &BTreeMap<ObjectKey, SessionTarget>) {
        let mut kept = self.lock_sessions();
        // Requests in flight keep the session of a connector that was removed until they end.
        kept.retain(|key, _| wanted.contains_key(key));
        for (key, wanted) in wanted {
            match kept.get(key) {
                Some(kept) => {
                    kept.shared.target.send_if_modified(|it| {
                        let news = it != wanted;
                        it.clone_from(wanted);
                        news
                    });
                }
                None => drop(kept.insert(key.clone(), self.start_session(wanted))),
            }
        }
    }

    fn lost_sessions(&self) -> Vec<LostSession> {
        let kept = self.lock_sessions();
        let lost = kept.iter().filter(|(_, it)| it.shared.lost.load(Ordering::Acquire));
        lost.map(|(key, it)| LostSession {
            namespace: key.namespace.as_deref().unwrap_or_default().to_owned(),
            name: key.name.to_string(),
            session: it.shared.target.borrow().target.session.clone(),
        })
        .collect()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.lock_sessions().clear();
        Box::pin(self.0.endpoint.close())
    }
}

impl fmt::Debug for SessionManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper")
            .field("sessions", &self.lock_sessions().len())
            .finish_non_exhaustive()
    }
}
