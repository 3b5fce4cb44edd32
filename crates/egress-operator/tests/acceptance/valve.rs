//! Holds a request of a replica in flight: its sender cannot cancel it, and it arrives when it is
//! released even if the sender no longer waits for the response.

use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

/// A place where one request can be held. Clones share it.
#[derive(Clone, Default)]
pub struct Valve(Arc<Inner>);

#[derive(Default)]
struct Inner {
    hold: Mutex<Option<(String, &'static str)>>,
    reached: Notify,
    open: Notify,
}

impl Valve {
    /// Holds the next request of a replica whose method and path end like this.
    pub fn hold(&self, replica: &str, end: &'static str) {
        *self.0.hold.lock().unwrap() = Some((replica.to_owned(), end));
    }

    /// Waits until a request is held.
    pub async fn wait_reached(&self) {
        self.0.reached.notified().await;
    }

    /// Releases it.
    pub fn open(&self) {
        self.0.open.notify_one();
    }

    /// Sends a request; a held one is sent later.
    pub async fn pass<T: Send + 'static>(
        &self,
        replica: &str,
        what: &str,
        sent: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let held = {
            let mut hold = self.0.hold.lock().unwrap();
            let meant = |(who, end): &mut (String, &str)| *who == replica && what.ends_with(*end);
            hold.take_if(meant).is_some()
        };
        if !held {
            return sent.await;
        }
        self.0.reached.notify_one();
        let this = self.clone();
        let later = tokio::spawn(async move {
            this.0.open.notified().await;
            sent.await
        });
        later.await.unwrap()
    }
}
