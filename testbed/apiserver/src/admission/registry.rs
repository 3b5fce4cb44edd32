//! The policies in force: compiled when one of them, or one of their bindings, has changed, and
//! kept until then.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use aplomb_apimachinery::object;

use super::GROUP;
use super::policy::{Binding, Hook, Policy};
use crate::server::ApiServer;
use crate::storage::Change;

const POLICIES: &str = "validatingadmissionpolicies";
const BINDINGS: &str = "validatingadmissionpolicybindings";

/// What is known of the stored policies. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registry(Arc<State>);

#[derive(Debug)]
struct State {
    /// Something was written since `hooks` were made.
    changed: AtomicBool,
    hooks: Mutex<Arc<Vec<Hook>>>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            changed: AtomicBool::new(true),
            hooks: Mutex::default(),
        }
    }
}

impl Registry {
    /// Takes note of a write.
    pub(crate) fn observe(&self, change: &Change) {
        let resource = &change.key.resource;
        if resource.group == GROUP && [POLICIES, BINDINGS].contains(&resource.resource.as_str()) {
            self.0.changed.store(true, Ordering::Release);
        }
    }

    /// Every policy that is bound, in order of names, and so are its bindings.
    pub(super) fn hooks(&self, server: &ApiServer) -> Arc<Vec<Hook>> {
        let mut hooks = self.0.hooks.lock().unwrap_or_else(PoisonError::into_inner);
        if self.0.changed.swap(false, Ordering::AcqRel) {
            *hooks = Arc::new(collect(server));
        }
        hooks.clone()
    }
}

fn collect(server: &ApiServer) -> Vec<Hook> {
    let stored = server.list(GROUP, BINDINGS);
    if stored.is_empty() {
        return Vec::new();
    }
    let policies = server.list(GROUP, POLICIES);
    let bound = policies.iter().filter_map(|policy| {
        let name = object::name(policy);
        let bindings: Vec<Binding> = stored
            .iter()
            .filter(|binding| binding["spec"]["policyName"] == name)
            .map(|binding| Binding::of(binding))
            .collect();
        (!bindings.is_empty()).then(|| Hook {
            policy: Policy::of(policy),
            bindings,
        })
    });
    bound.collect()
}
