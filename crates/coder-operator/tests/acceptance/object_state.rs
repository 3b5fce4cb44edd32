//! Reads what users see of objects: statuses, conditions, Events; and counts status writes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use aplomb_api::coder::{CoderProvisionerStatus, CoderWorkspaceProxyStatus};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::lab::{Lab, NAMESPACE};
use crate::site::Site;

/// A condition's fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    pub status: String,
    pub reason: String,
    pub message: String,
}

impl Lab {
    /// Any object as stored.
    pub fn stored_object(&self, group: &str, plural: &str, name: &str) -> Option<Arc<Value>> {
        self.cluster.server().get(group, plural, NAMESPACE, name)
    }

    /// The server with this URL.
    pub fn site(&self, url: &str) -> &Site {
        let sites = [&self.coderd, &self.other];
        let found = sites.into_iter().find(|site| site.url == url);
        found.expect("there are two")
    }

    /// Which token was sent to which host so far.
    pub fn sent_requests(&self) -> BTreeSet<(String, String)> {
        self.sent.lock().unwrap().clone()
    }

    /// The replicas in the spec of a CoderProvisioner.
    pub fn replicas(&self, name: &str) -> usize {
        let stored = self.stored_object("aplomb.dev", "coderprovisioners", name);
        let wanted = stored.and_then(|it| it.pointer("/spec/replicas")?.as_u64());
        usize::try_from(wanted.unwrap_or(1)).expect("few")
    }

    /// The name of the key that a CoderProvisioner uses.
    pub fn key_name(&self, name: &str) -> String {
        self.key_name_now(name).expect("a key")
    }

    /// The same; `None` if it has no key now.
    pub fn key_name_now(&self, name: &str) -> Option<String> {
        self.status(name).key.map(|it| it.name)
    }

    /// Whether a CoderProvisioner exists.
    pub fn exists(&self, name: &str) -> bool {
        self.stored_object("aplomb.dev", "coderprovisioners", name).is_some()
    }

    fn status_of<T: DeserializeOwned + Default>(&self, plural: &str, name: &str) -> T {
        let stored = self.stored_object("aplomb.dev", plural, name);
        let status = stored.and_then(|it| it.get("status").cloned());
        let read = |status| serde_json::from_value(status).expect("a status");
        status.map(read).unwrap_or_default()
    }

    /// The status of a CoderProvisioner.
    pub fn status(&self, name: &str) -> CoderProvisionerStatus {
        self.status_of("coderprovisioners", name)
    }

    /// The status of a CoderWorkspaceProxy.
    pub fn proxy_status(&self, name: &str) -> CoderWorkspaceProxyStatus {
        self.status_of("coderworkspaceproxies", name)
    }

    /// A condition of a CoderProvisioner; empty if there is none.
    pub fn condition(&self, name: &str, kind: &str) -> Shown {
        shown(self.status(name).conditions, kind)
    }

    /// A condition of a CoderWorkspaceProxy; empty if there is none.
    pub fn proxy_condition(&self, name: &str, kind: &str) -> Shown {
        shown(self.proxy_status(name).conditions, kind)
    }

    /// A value of a Secret.
    pub fn secret(&self, name: &str, key: &str) -> Option<String> {
        let stored = self.stored_object("", "secrets", name)?;
        let secret: Secret = serde_json::from_value((*stored).clone()).ok()?;
        let value = secret.data?.remove(key)?;
        String::from_utf8(value.0).ok()
    }

    /// The plaintext in the Secret of a CoderProvisioner.
    pub fn plaintext(&self, name: &str) -> Option<String> {
        self.secret(&format!("{name}-provisioner-key"), "key")
    }

    /// Events so far: their reasons and counts with their texts.
    pub fn events(&self) -> Vec<(String, String)> {
        let events = self.cluster.server().list("", "events");
        let text = |event: &Value, keys: [&str; 2]| {
            let found = keys.iter().find_map(|key| event.get(*key)?.as_str());
            found.unwrap_or_default().to_owned()
        };
        let told = events.iter().map(|event| {
            let words = text(event, ["message", "note"]);
            (text(event, ["reason", "reason"]), words)
        });
        told.collect()
    }

    /// Whether an Event with this reason was published.
    pub fn has_event(&self, reason: &str) -> bool {
        self.events().iter().any(|(it, _)| it == reason)
    }

    /// How many keys the first server has when the next CoderProvisioner is deleted.
    pub fn keys_when_gone(&self) -> Arc<Mutex<Option<usize>>> {
        let (seen, site) = (Arc::<Mutex<Option<usize>>>::default(), self.coderd.clone());
        let sees = seen.clone();
        self.cluster.server().on_commit(Arc::new(move |change| {
            if change.key.resource.resource == "coderprovisioners" && change.new.is_none() {
                *sees.lock().unwrap() = Some(site.names().len());
            }
        }));
        seen
    }

    /// Counts status writes of our kinds from now on.
    pub fn status_writes(&self) -> Arc<AtomicU64> {
        let count = Arc::new(AtomicU64::new(0));
        let counts = count.clone();
        self.cluster.server().on_commit(Arc::new(move |change| {
            let ours = change.key.resource.resource.starts_with("coder");
            let (old, new) = (change.old.as_deref(), change.new.as_deref());
            let status = |it: Option<&Value>| it.and_then(|it| it.get("status")).cloned();
            if ours && new.is_some() && status(old) != status(new) {
                counts.fetch_add(1, Ordering::Relaxed);
            }
        }));
        count
    }
}

fn shown(conditions: Vec<Condition>, kind: &str) -> Shown {
    let found = conditions.into_iter().find(|it| it.type_ == kind);
    let shown = |it: Condition| Shown {
        status: it.status,
        reason: it.reason,
        message: it.message,
    };
    found.map(shown).unwrap_or_default()
}
