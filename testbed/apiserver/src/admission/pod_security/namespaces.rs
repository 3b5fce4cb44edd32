//! Namespaces as PodSecurity looks at them: labels must be understood when they are set, and who
//! asks for more is told which Pods would not have been let in.
//!
//! Pods that are there stay; nothing here refuses for their sake.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aplomb_apimachinery::object;
use aplomb_apimachinery::status::ApiError;
use serde_json::Value;

use super::super::request::Request;
use super::checks;
use super::pod::{Pod, items};
use super::policy;
use super::standard::{Level, Standard};
use crate::server::ApiServer;

/// More Pods than these are not looked at.
const MOST_PODS: usize = 3000;

/// Refuses labels that are not understood and were not there before; warns about Pods.
pub(super) fn check(server: &ApiServer, request: &Request<'_>, namespace: &Value) -> Result<(), ApiError> {
    if !request.subresource.is_empty() {
        return Ok(());
    }
    let (new, errors) = policy::of(namespace);
    let (old, known) = request.old.map(policy::of).unwrap_or_default();
    if !errors.is_empty() && errors != known {
        let kind = request.call.resource.group_kind();
        return Err(ApiError::invalid(&kind, request.shown_name(), &errors));
    }
    if request.old.is_some() && asks_for_more(new.enforce, old.enforce) {
        let name = object::name(namespace);
        let mut pods = server.list("", "pods");
        pods.retain(|pod| object::namespace(pod) == name);
        for warning in violations(name, new.enforce, pods) {
            request.call.notes.warn(warning);
        }
    }
    Ok(())
}

/// Whether Pods might be forbidden now that were not before.
fn asks_for_more(new: Standard, old: Standard) -> bool {
    let no_less = new.version == old.version && new.level <= old.level;
    new.level != Level::Privileged && !no_less
}

/// What is said about the Pods of a namespace: each set of reasons once, with the first Pod of
/// those it goes for.
fn violations(namespace: &str, enforce: Standard, pods: Vec<Arc<Value>>) -> Vec<String> {
    let total = pods.len();
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pod in unlike_first(pods).iter().take(MOST_PODS) {
        let forbidden = checks::judge(enforce, &Pod::of(pod));
        if !forbidden.is_empty() {
            let names = found.entry(forbidden.reasons()).or_default();
            names.push(object::name(pod).to_owned());
        }
    }
    let mut warnings = Vec::new();
    if total > MOST_PODS {
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {MOST_PODS} of {total} existing pods"
        ));
    }
    if !found.is_empty() {
        warnings.push(format!(
            "existing pods in namespace \"{namespace}\" violate the new PodSecurity enforce level \"{enforce}\""
        ));
    }
    let mut about: Vec<String> = found.into_iter().map(about_pods).collect();
    about.sort();
    warnings.extend(about);
    warnings
}

fn about_pods((reasons, names): (String, Vec<String>)) -> String {
    let first = names.iter().min().map_or("", String::as_str);
    match names.len() {
        1 => format!("{first}: {reasons}"),
        2 => format!("{first} (and 1 other pod): {reasons}"),
        count => format!("{first} (and {} other pods): {reasons}", count - 1),
    }
}

/// The Pods with the replicas of others last: those are likely to be as the others are.
fn unlike_first(pods: Vec<Arc<Value>>) -> Vec<Arc<Value>> {
    let mut seen = BTreeSet::new();
    let (mut first, replicas): (Vec<_>, Vec<_>) = pods
        .into_iter()
        .partition(|pod| controller(pod).is_none_or(|uid| seen.insert(uid.to_owned())));
    first.extend(replicas);
    first
}

fn controller(pod: &Value) -> Option<&str> {
    let mut owners = items(&pod["metadata"]["ownerReferences"]).iter();
    let owner = owners.find(|owner| owner["controller"] == true)?;
    Some(object::text(owner, "uid"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::standard::Version;
    use super::*;

    fn baseline() -> Standard {
        Standard {
            level: Level::Baseline,
            version: Version::Latest,
        }
    }

    fn pod(name: &str, owner: &str, spec: &Value) -> Arc<Value> {
        let owners = json!([{ "uid": owner, "controller": true }]);
        let owners = if owner.is_empty() { json!([]) } else { owners };
        Arc::new(json!({ "metadata": { "name": name, "ownerReferences": owners }, "spec": spec }))
    }

    #[test]
    fn pods_are_counted_by_what_is_wrong_with_them() {
        let (network, both) = (
            json!({ "hostNetwork": true }),
            json!({ "hostNetwork": true, "volumes": [{ "name": "v", "hostPath": { "path": "/" } }] }),
        );
        let pods = vec![
            pod("c", "", &network),
            pod("b", "", &network),
            pod("d", "", &network),
            pod("z", "", &both),
            pod("y", "", &both),
            pod("fine", "", &json!({})),
        ];
        assert_eq!(
            violations("here", baseline(), pods),
            [
                "existing pods in namespace \"here\" violate the new PodSecurity enforce level \"baseline:latest\"",
                "b (and 2 other pods): host namespaces",
                "y (and 1 other pod): host namespaces, hostPath volumes",
            ]
        );
        let alone = vec![pod("a", "", &network)];
        assert_eq!(violations("n", baseline(), alone)[1], "a: host namespaces");
        assert!(violations("n", baseline(), Vec::new()).is_empty());
    }

    #[test]
    fn of_very_many_pods_replicas_are_looked_at_last() {
        let replica = json!({});
        let mut pods = vec![pod("x", "1", &replica); MOST_PODS + 5];
        pods.push(pod("last", "", &json!({ "hostPID": true })));
        let said = violations("n", baseline(), pods);
        assert_eq!(
            said[0],
            "new PodSecurity enforce level only checked against the first 3000 of 3006 existing pods"
        );
        assert_eq!(said[2], "last: host namespaces");
    }

    #[test]
    fn pods_are_looked_at_when_more_is_asked_for_or_another_version() {
        let standard = |level, version| Standard { level, version };
        let (low, high) = (Level::Baseline, Level::Restricted);
        let (old, new) = (Version::Minor(20), Version::Latest);
        assert!(asks_for_more(standard(high, new), standard(low, new)));
        assert!(asks_for_more(standard(low, old), standard(high, new)));
        assert!(!asks_for_more(standard(low, new), standard(high, new)));
        assert!(!asks_for_more(standard(low, new), standard(low, new)));
        let none = Level::Privileged;
        assert!(!asks_for_more(standard(none, old), standard(none, new)));
    }
}
