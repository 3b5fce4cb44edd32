//! Holds a request of a replica on the wire: it is out of the hands of its sender, and arrives when it is
//! let go even if nobody waits for the answer any more.

use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

/// A place on the wire where one request can be held. Clones are the same place.
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

    /// Waits until one is held.
    pub async fn wait_reached(&self) {
        self.0.reached.notified().await;
    }

    /// Lets it go.
    pub fn open(&self) {
        self.0.open.notify_one();
    }

    /// Sends a request, later if it is one that is held.
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
