//! Waits on the watch of one object until it is as expected, without polling.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::watcher::{self, watch_object};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

/// A watched object.
pub(crate) struct ObjectWatch<K> {
    name: String,
    /// The last version seen: it may already be as expected.
    last: Option<K>,
    events: BoxStream<'static, Result<Option<K>, watcher::Error>>,
}

impl<K> ObjectWatch<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    pub(crate) fn new(api: Api<K>, name: &str) -> Self {
        Self {
            name: format!("{}/{name}", K::kind(&()).to_lowercase()),
            last: None,
            events: watch_object(api, name).boxed(),
        }
    }

    /// The first version for which `fits` returns true.
    pub(crate) async fn wait_until(&mut self, limit: Duration, what: &str, fits: impl Fn(&K) -> bool) -> Result<K> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(object) = self.last.as_ref().filter(|it| fits(it)) {
                return Ok(object.clone());
            }
            let next = timeout_at(deadline, self.events.next()).await;
            let late = || format!("{} was not {what} within {limit:?}", self.name);
            match next.with_context(late)? {
                Some(Ok(object)) => self.last = object,
                // The watcher reconnects by itself.
                Some(Err(error)) => tracing::warn!(%error, "Demo watch failed; it will reconnect"),
                None => bail!("the watch of {} closed", self.name),
            }
        }
    }
}

/// A condition, if it exists.
pub(crate) fn find_condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|it| it.type_ == kind)
}

/// Whether a condition is True.
pub(crate) fn is_true(conditions: &[Condition], kind: &str) -> bool {
    find_condition(conditions, kind).is_some_and(|it| it.status == "True")
}
