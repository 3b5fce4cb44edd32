//! Restarts of the API server: every connection is cut, then refused, then the watch caches fill.
//!
//! One handle is shared by the layers of all clients, since they all lose the same server.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// One restart.
#[derive(Clone, Copy, Debug)]
struct Outage {
    begins: Instant,
    accepts: Instant,
    ready: Instant,
}

/// What a request meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Up,
    /// Nobody listens.
    Down,
    /// Lists and watches are answered 429 until the caches are filled.
    Initializing,
}

/// The restarts of one API server, past and to come.
#[derive(Clone, Debug)]
pub struct Outages {
    outages: Arc<watch::Sender<Vec<Outage>>>,
}

impl Default for Outages {
    fn default() -> Self {
        Self {
            outages: Arc::new(watch::Sender::new(Vec::new())),
        }
    }
}

impl Outages {
    /// A server that stays up until told otherwise.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Restarts the server at `begins`: it refuses connections for `refusing`, and lists and
    /// watches for `initializing` after that.
    pub fn restart_at(&self, begins: Instant, refusing: Duration, initializing: Duration) {
        let accepts = begins + refusing;
        let outage = Outage {
            begins,
            accepts,
            ready: accepts + initializing,
        };
        self.outages.send_modify(|outages| outages.push(outage));
    }

    /// Restarts the server now.
    pub fn restart(&self, refusing: Duration, initializing: Duration) {
        self.restart_at(Instant::now(), refusing, initializing);
    }

    pub(super) fn condition(&self) -> Condition {
        let now = Instant::now();
        let outages = self.outages.borrow();
        let within = |from: Instant, until: Instant| (from..until).contains(&now);
        if outages.iter().any(|outage| within(outage.begins, outage.accepts)) {
            Condition::Down
        } else if outages.iter().any(|outage| within(outage.accepts, outage.ready)) {
            Condition::Initializing
        } else {
            Condition::Up
        }
    }

    /// Returns when a connection opened now is cut: at the next restart that has not begun yet.
    pub(super) fn cut(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut changes = self.outages.subscribe();
        let opened = Instant::now();
        let begun = |outage: &Outage| outage.begins <= opened;
        let survived: Vec<bool> = changes.borrow().iter().map(begun).collect();
        async move {
            loop {
                let next = next_cut(&changes.borrow_and_update(), &survived);
                tokio::select! {
                    biased;
                    () = at(next) => return,
                    changed = changes.changed() => if changed.is_err() {
                        return at(next).await;
                    },
                }
            }
        }
    }
}

fn next_cut(outages: &[Outage], survived: &[bool]) -> Option<Instant> {
    let cuts = outages.iter().enumerate();
    let cuts = cuts.filter(|(index, _)| !survived.get(*index).copied().unwrap_or(false));
    cuts.map(|(_, outage)| outage.begins).min()
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
