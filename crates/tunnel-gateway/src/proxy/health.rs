//! Whether the gateway wants traffic: not before its first table, and not while it goes away.

use tokio::sync::watch;

/// What the gateway is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServePhase {
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
pub struct PhaseHandle(watch::Sender<ServePhase>);

impl PhaseHandle {
    /// Goes on to `phase`, unless it is past it already.
    pub fn advance_to(&self, phase: ServePhase) {
        self.0.send_if_modified(|now| {
            let later = phase > *now;
            *now = phase.max(*now);
            later
        });
    }

    /// The phase.
    #[must_use]
    pub fn phase(&self) -> ServePhase {
        *self.0.borrow()
    }

    /// Whether traffic is wanted: what `/readyz` says.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.phase() == ServePhase::Serving
    }

    /// Waits until `phase` is reached or past.
    pub async fn wait_for(&self, phase: ServePhase) {
        let mut watch = self.0.subscribe();
        // The sender is in self: it is there as long as this waits.
        let _ = watch.wait_for(|now| *now >= phase).await;
    }
}

impl Default for PhaseHandle {
    fn default() -> Self {
        Self(watch::Sender::new(ServePhase::Starting))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_ready_from_the_first_table_to_the_drain() {
        let health = PhaseHandle::default();
        assert!(!health.is_ready());
        health.advance_to(ServePhase::Serving);
        assert!(health.is_ready());
        health.advance_to(ServePhase::Draining);
        assert!(!health.is_ready());
        health.advance_to(ServePhase::Serving);
        assert!(!health.is_ready(), "there is no way back");
        health.wait_for(ServePhase::Serving).await;
        health.wait_for(ServePhase::Draining).await;
    }
}
