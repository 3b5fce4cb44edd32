//! The loop of a controller: changes name the items to look at, items are looked at when due.
//!
//! What to do about an item is the controller's business; when, and again after a failure, is
//! this file's.

use std::fmt::Debug;
use std::future::{Future, pending};
use std::ops::Range;
use std::time::Duration;

use aplomb_apimachinery::status::ApiError;
use aplomb_apiserver::server::ApiServer;
use aplomb_apiserver::storage::Change;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;

use super::Delay;
use super::queue::Queue;
use super::system_client::SystemClient;

/// Why nothing can be created in a namespace that is being deleted.
pub(super) const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";

/// A controller: level-triggered, one item at a time.
pub(super) trait Controller: Send {
    /// What is looked at as one.
    type Item: Ord + Clone + Debug + Send + Sync;

    /// One for a server.
    fn new(server: &ApiServer) -> Self;

    /// How it reaches the server.
    fn door(&self) -> &SystemClient;

    /// Whether a change may concern any item at all.
    fn follows(change: &Change) -> bool;

    /// Everything there is to look at when it starts.
    fn stock(&self) -> Vec<Self::Item>;

    /// The items a change concerns.
    fn concerned(&self, change: &Change) -> Vec<Self::Item>;

    /// Brings one item closer to what it should be; says when to look again without a change.
    fn sync(&mut self, item: &Self::Item) -> impl Future<Output = Result<Option<Duration>, ApiError>> + Send;

    /// Items to look at for a reason that is no write. Dropping the future must lose nothing.
    fn nudged(&mut self) -> impl Future<Output = Vec<Self::Item>> + Send {
        pending()
    }
}

/// Starts a controller that takes this long before it looks at an item.
pub(super) fn start<C: Controller + 'static>(server: &ApiServer, delay: &Range<Duration>, tasks: &mut JoinSet<()>) {
    let controller = C::new(server);
    let changes = controller.door().follow(C::follows);
    tasks.spawn(run(controller, changes, Delay::new(server, delay)));
}

/// Runs a controller until it is dropped.
async fn run<C: Controller>(mut controller: C, mut changes: UnboundedReceiver<Change>, mut delay: Delay) {
    let mut queue = Queue::new();
    for item in controller.stock() {
        queue.add(item, delay.draw());
    }
    loop {
        tokio::select! {
            biased;
            change = changes.recv() => {
                let Some(change) = change else { return };
                for item in controller.concerned(&change) {
                    queue.add(item, delay.draw());
                }
            }
            items = controller.nudged() => {
                for item in items {
                    queue.add(item, delay.draw());
                }
            }
            item = queue.next() => attempt(&mut controller, &mut queue, item).await,
        }
    }
}

async fn attempt<C: Controller>(controller: &mut C, queue: &mut Queue<C::Item>, item: C::Item) {
    match controller.sync(&item).await {
        Ok(again) => {
            queue.forget(&item);
            if let Some(later) = again {
                queue.add(item, later);
            }
        }
        Err(error) if is_final(&error) => queue.forget(&item),
        Err(error) => {
            tracing::debug!(?item, %error, "Sync failed, will retry");
            queue.retry(item);
        }
    }
}

/// Nothing can be made in a namespace that goes or is gone, nor done to an object that is gone.
fn is_final(error: &ApiError) -> bool {
    error.code == 404 || error.has_cause(NAMESPACE_TERMINATING)
}
