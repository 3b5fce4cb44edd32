//! The conditions of a namespace that is being deleted: what is left, in the original's words.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::Resource;
use aplomb_apimachinery::status::ApiError;

/// Condition type, and reason and message when there is nothing to report.
const CONDITIONS: [(&str, &str, &str); 5] = [
    (
        "NamespaceDeletionDiscoveryFailure",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    (
        "NamespaceContentRemaining",
        "ContentRemoved",
        "All content successfully removed",
    ),
    (
        "NamespaceFinalizersRemaining",
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
];

/// What could not be removed yet.
#[derive(Debug, Default)]
pub(super) struct Remains {
    pub(super) resources: BTreeMap<String, usize>,
    finalizers: BTreeMap<String, usize>,
}

/// Brings the conditions up to date; says whether that changed anything.
pub(super) fn update(conditions: &mut Vec<Value>, remains: &Remains, failures: &[ApiError], now: &str) -> bool {
    let mut changed = false;
    for (kind, reason, message) in CONDITIONS {
        let (status, reason, message) = match remains.condition(kind, failures) {
            Some((reason, message)) => ("True", reason, message),
            None => ("False", reason, message.to_owned()),
        };
        changed |= set_condition(conditions, [kind, status, reason, &message], now);
    }
    changed
}

impl Remains {
    pub(super) fn count(&mut self, resource: &Resource, left: &[Arc<Value>]) {
        if left.is_empty() {
            return;
        }
        let name = format!("{}.{}", resource.plural, resource.group);
        self.resources.insert(name, left.len());
        for object in left {
            for finalizer in object::finalizers(object) {
                *self.finalizers.entry(finalizer.to_owned()).or_default() += 1;
            }
        }
    }

    /// Reason and message of a condition that has something to report.
    fn condition(&self, kind: &str, failures: &[ApiError]) -> Option<(&'static str, String)> {
        let listed = |counts: &BTreeMap<String, usize>, words: &str| {
            let entries: Vec<String> = counts
                .iter()
                .map(|(name, count)| words.replace('%', &count.to_string()).replace('@', name))
                .collect();
            entries.join(", ")
        };
        match kind {
            "NamespaceDeletionContentFailure" if !failures.is_empty() => {
                let mut messages: Vec<&str> = failures.iter().map(|it| it.message.as_str()).collect();
                messages.sort_unstable();
                let message = format!(
                    "Failed to delete all resource types, {} remaining: {}",
                    messages.len(),
                    messages.join(", ")
                );
                Some(("ContentDeletionFailed", message))
            }
            "NamespaceContentRemaining" if !self.resources.is_empty() => {
                let listed = listed(&self.resources, "@ has % resource instances");
                Some(("SomeResourcesRemain", format!("Some resources are remaining: {listed}")))
            }
            "NamespaceFinalizersRemaining" if !self.finalizers.is_empty() => {
                let listed = listed(&self.finalizers, "@ in % resource instances");
                let message = format!("Some content in the namespace has finalizers remaining: {listed}");
                Some(("SomeFinalizersRemain", message))
            }
            _ => None,
        }
    }
}

/// Sets type, status, reason and message of a condition; says whether that changed anything.
fn set_condition(conditions: &mut Vec<Value>, condition: [&str; 4], now: &str) -> bool {
    let [kind, status, reason, message] = condition;
    let Some(old) = conditions.iter_mut().find(|old| old["type"] == kind) else {
        conditions.push(json!({
            "type": kind,
            "status": status,
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }));
        return true;
    };
    if old["status"] == status && old["reason"] == reason && old["message"] == message {
        return false;
    }
    if old["status"] != status {
        old["lastTransitionTime"] = now.into();
    }
    old["status"] = status.into();
    old["reason"] = reason.into();
    old["message"] = message.into();
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_moves_its_time_only_with_its_status() {
        let mut conditions = Vec::new();
        assert!(update(&mut conditions, &Remains::default(), &[], "then"));
        assert!(
            !update(&mut conditions, &Remains::default(), &[], "now"),
            "nothing is new"
        );
        let mut remains = Remains::default();
        remains.resources.insert("configmaps.".to_owned(), 2);
        remains.finalizers.insert("example.com/hold".to_owned(), 1);
        assert!(update(&mut conditions, &remains, &[], "now"));
        let content = &conditions[3];
        assert_eq!(
            content["message"],
            "Some resources are remaining: configmaps. has 2 resource instances"
        );
        assert_eq!(
            (&content["status"], &content["lastTransitionTime"]),
            (&json!("True"), &json!("now"))
        );
        assert_eq!(conditions[0]["lastTransitionTime"], "then");
        let finalizers = "Some content in the namespace has finalizers remaining: \
            example.com/hold in 1 resource instances";
        assert_eq!(conditions[4]["message"], finalizers);
    }
}
