//! List and watch of one kind in one scope: kept alive permanently, resumed where it was interrupted.
//!
//! Implemented on `kube::Client`, because kube's `watcher` drops bookmarks and with them the
//! versions that show how current a cache is. It only updates a cache and makes no other decisions.

mod course;
mod drive;
mod failure;
mod stream;
mod wire;

use std::any::TypeId;
use std::fmt;
use std::time::Duration;

use k8s_openapi::ClusterResourceScope;
use kube::Resource;

pub(crate) use self::drive::{ReflectorTask, run_reflector};

/// Which objects of a kind are watched.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// The namespace; all of them if `None`, and for kinds that have none.
    pub namespace: Option<String>,
    /// A label selector, as `kubectl --selector` takes it.
    pub labels: Option<String>,
    /// A field selector.
    pub fields: Option<String>,
}

impl Scope {
    /// The scope that applies to `K`: a kind without namespaces is watched whole.
    pub(crate) fn for_kind<K: Resource>(self) -> Self
    where
        K::Scope: 'static,
    {
        let cluster = TypeId::of::<K::Scope>() == TypeId::of::<ClusterResourceScope>();
        Self {
            namespace: self.namespace.filter(|_| !cluster),
            ..self
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "namespace {namespace}")?,
            None => f.write_str("all namespaces")?,
        }
        for selector in [&self.labels, &self.fields].into_iter().flatten() {
            write!(f, ", {selector}")?;
        }
        Ok(())
    }
}

/// The timeouts of a watch.
#[derive(Clone, Debug)]
pub struct ReflectorTiming {
    /// A stream without an event, a bookmark or its end for this long is dead. Must be longer than
    /// `lifetime`.
    pub silence_timeout: Duration,
    /// How long the server may take to open a watch.
    pub open_timeout: Duration,
    /// How long it may take to send a page of a list.
    pub page_timeout: Duration,
    /// The first and the longest wait after failures.
    pub backoff: (Duration, Duration),
    /// How long, at least and at most, the server should keep a watch open. A server sends
    /// no bookmark while nothing happens, so only an end at the requested time distinguishes a quiet watch from a
    /// dead one: a minute, where others use five.
    pub lifetime: (Duration, Duration),
    /// Objects per page of a list.
    pub page_size: u32,
}

impl Default for ReflectorTiming {
    fn default() -> Self {
        Self {
            silence_timeout: Duration::from_secs(75),
            open_timeout: Duration::from_secs(30),
            page_timeout: Duration::from_secs(60),
            backoff: (Duration::from_millis(800), Duration::from_secs(30)),
            lifetime: (Duration::from_secs(50), Duration::from_secs(60)),
            page_size: 500,
        }
    }
}
