//! Whether the gateway is ready for traffic: not before its first table, and not during shutdown.

use tokio::sync::watch;

/// The phase of the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServePhase {
    /// Its first table is not complete.
    Starting,
    /// It serves requests.
    Serving,
    /// It finishes requests in flight and accepts no more.
    Draining,
    /// All requests have ended.
    Stopped,
}

/// The phase, which never goes back. Clones share it.
#[derive(Clone, Debug)]
pub struct PhaseHandle(watch::Sender<ServePhase>);

impl PhaseHandle {
    /// Advances to `phase`, unless it is already past it.
    pub fn advance_to(&self, phase: ServePhase) {
        self.0.send_if_modified(|now| {
            let later = phase > *now;
            *now = phase.max(*now);
            later
        });
    }

    /// The current phase.
    #[must_use]
    pub fn phase(&self) -> ServePhase {
        *self.0.borrow()
    }

    /// Whether the gateway is ready: the result of `/readyz`.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.phase() == ServePhase::Serving
    }

    /// Waits until `phase` is reached or passed.
    pub async fn wait_for(&self, phase: ServePhase) {
        let mut watch = self.0.subscribe();
        // The sender is owned by self, so it exists while this waits.
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
        assert!(!health.is_ready(), "phases never go back");
        health.wait_for(ServePhase::Serving).await;
        health.wait_for(ServePhase::Draining).await;
    }
}
