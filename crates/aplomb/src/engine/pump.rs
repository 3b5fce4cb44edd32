//! Takes keys from the desk and runs them, as many at once as there are workers.
//!
//! A completion costs the same however many runs are in flight. While this replica does not lead,
//! nothing is taken: the caches stay warm and the queue stays full.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::time::timeout;

use super::Terms;
use super::controller::Kind;
use super::run::Crew;

/// Runs a controller's keys until it is told to stop, then waits for what is in flight, but no longer
/// than the terms allow.
pub(crate) async fn pump<K: Kind>(crew: Arc<Crew<K>>, mut terms: Terms) {
    let workers = crew.desk.options.workers;
    let mut runs = FuturesUnordered::new();
    loop {
        let leading = *terms.leading.borrow_and_update();
        while leading && runs.len() < workers {
            let Some(work) = crew.desk.take() else { break };
            runs.push(terms.tasks.start(crew.clone().run(work)).join());
        }
        let free = leading && runs.len() < workers;
        tokio::select! { biased;
            () = terms.stop.cancelled() => break,
            Some(_) = runs.next() => {}
            Ok(()) = terms.leading.changed() => {}
            () = crew.desk.changed(), if free => {}
        }
    }
    // What began is allowed to end: a write cut in half helps nobody. What hangs is not waited for.
    let drained = timeout(terms.drain, async { while runs.next().await.is_some() {} }).await;
    if drained.is_err() {
        tracing::warn!(controller = crew.name, "Left runs unfinished at shutdown");
    }
}
