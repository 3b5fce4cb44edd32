//! Whether the gateway wants traffic: not before its first table, and not while it goes away.

use tokio::sync::watch;

/// What the gateway is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Its first table is not complete.
    Starting,
    /// It serves.
    Serving,
    /// It finishes what was begun, and wants nothing more.
    Draining,
    /// Nothing is under way any more.
    Stopped,
}

/// The phase, which only goes forward. Clones share it.
#[derive(Clone, Debug)]
pub struct Health(watch::Sender<Phase>);

impl Health {
    /// Goes on to `phase`, unless it is past it already.
    pub fn reach(&self, phase: Phase) {
        self.0.send_if_modified(|now| {
            let later = phase > *now;
            *now = phase.max(*now);
            later
        });
    }

    /// The phase.
    #[must_use]
    pub fn phase(&self) -> Phase {
        *self.0.borrow()
    }

    /// Whether traffic is wanted: what `/readyz` says.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.phase() == Phase::Serving
    }

    /// Waits until `phase` is reached or past.
    pub async fn reached(&self, phase: Phase) {
        let mut watch = self.0.subscribe();
        // The sender is in self: it is there as long as this waits.
        let _ = watch.wait_for(|now| *now >= phase).await;
    }
}

impl Default for Health {
    fn default() -> Self {
        Self(watch::Sender::new(Phase::Starting))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_ready_from_the_first_table_to_the_drain() {
        let health = Health::default();
        assert!(!health.ready());
        health.reach(Phase::Serving);
        assert!(health.ready());
        health.reach(Phase::Draining);
        assert!(!health.ready());
        health.reach(Phase::Serving);
        assert!(!health.ready(), "there is no way back");
        health.reached(Phase::Serving).await;
        health.reached(Phase::Draining).await;
    }
}
