//! Which objects a quota with scopes is about.

use serde_json::{Value, json};

use super::super::check::selects;
use super::super::pods::defaults::qos_class;
use super::super::value::{at, has, list, number, text};

/// Whether a quota is about an object that is in each scope for which `within` says so.
pub(super) fn covers(quota: &Value, within: impl Fn(&Value) -> bool) -> bool {
    let named = list(quota, &["spec", "scopes"]).iter();
    let mut named = named.map(|scope| json!({ "scopeName": scope, "operator": "Exists" }));
    let selectors = list(quota, &["spec", "scopeSelector", "matchExpressions"]);
    named.all(|scope| within(&scope)) && selectors.iter().all(&within)
}

/// Whether a pod is in a scope.
pub(super) fn has_pod(scope: &Value, pod: &Value) -> bool {
    match text(scope, &["scopeName"]) {
        "Terminating" => has_deadline(pod),
        "NotTerminating" => !has_deadline(pod),
        "BestEffort" => is_best_effort(pod),
        "NotBestEffort" => !is_best_effort(pod),
        "PriorityClass" => has_one_of(scope, &[text(pod, &["spec", "priorityClassName"])]),
        "CrossNamespacePodAffinity" => looks_abroad(pod),
        _ => false,
    }
}

/// Whether a claim is in a scope.
pub(super) fn has_claim(scope: &Value, claim: &Value) -> bool {
    let classes = [
        text(claim, &["spec", "volumeAttributesClassName"]),
        text(claim, &["status", "currentVolumeAttributesClassName"]),
        text(
            claim,
            &["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"],
        ),
    ];
    text(scope, &["scopeName"]) == "VolumeAttributesClass" && has_one_of(scope, &classes)
}

/// Whether a pod ends by itself.
pub(super) fn has_deadline(pod: &Value) -> bool {
    number(pod, &["spec", "activeDeadlineSeconds"]).is_some_and(|seconds| seconds >= 0)
}

fn is_best_effort(pod: &Value) -> bool {
    match text(pod, &["status", "qosClass"]) {
        "" => qos_class(at(pod, &["spec"])) == "BestEffort",
        class => class == "BestEffort",
    }
}

/// Whether a scope selects any of the classes, or their absence where none is named.
fn has_one_of(scope: &Value, classes: &[&str]) -> bool {
    let key = text(scope, &["scopeName"]);
    let expression = json!({ "key": key, "operator": at(scope, &["operator"]),
        "values": at(scope, &["values"]) });
    let selector = json!({ "matchExpressions": [expression] });
    let mut named = classes.iter().filter(|class| !class.is_empty()).peekable();
    if named.peek().is_none() {
        return selects(&selector, &json!({}));
    }
    named.any(|class| selects(&selector, &json!({ key: class })))
}

/// Whether a pod wants to be near to, or far from, pods of other namespaces.
fn looks_abroad(pod: &Value) -> bool {
    let abroad = |term: &Value| !list(term, &["namespaces"]).is_empty() || has(term, &["namespaceSelector"]);
    ["podAffinity", "podAntiAffinity"].iter().any(|which| {
        let affinity = at(pod, &["spec", "affinity", which]);
        let required = list(affinity, &["requiredDuringSchedulingIgnoredDuringExecution"]);
        let preferred = list(affinity, &["preferredDuringSchedulingIgnoredDuringExecution"]);
        let weighted = preferred.iter().map(|term| at(term, &["podAffinityTerm"]));
        required.iter().chain(weighted).any(abroad)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scoped(scopes: &Value, expressions: &Value, pod: &Value) -> bool {
        let selector = json!({ "matchExpressions": expressions });
        let quota = json!({ "spec": { "scopes": scopes, "scopeSelector": selector } });
        covers(&quota, |scope| has_pod(scope, pod))
    }

    #[test]
    fn a_deadline_and_a_quality_of_service_are_scopes() {
        let short = json!({ "spec": { "activeDeadlineSeconds": 5 } });
        let long = json!({ "spec": {}, "status": { "qosClass": "Burstable" } });
        let none = json!([]);
        assert!(scoped(&json!(["Terminating", "BestEffort"]), &none, &short));
        assert!(!scoped(&json!(["NotTerminating"]), &none, &short));
        assert!(scoped(&json!(["NotTerminating", "NotBestEffort"]), &none, &long));
        assert!(!scoped(&json!(["NotTerminating", "BestEffort"]), &none, &long));
    }

    #[test]
    fn priority_classes_are_selected() {
        let high = json!({ "spec": { "priorityClassName": "high" } });
        let none = json!({ "spec": {} });
        let by = |operator: &str, values: Value| json!([{ "scopeName": "PriorityClass", "operator": operator, "values": values }]);
        let scopes = json!([]);
        assert!(scoped(&scopes, &by("In", json!(["high"])), &high));
        assert!(!scoped(&scopes, &by("In", json!(["high"])), &none));
        assert!(scoped(&scopes, &by("NotIn", json!(["high"])), &none));
        assert!(!scoped(&scopes, &by("NotIn", json!(["high"])), &high));
        assert!(scoped(&scopes, &by("Exists", json!([])), &high));
        assert!(scoped(&scopes, &by("DoesNotExist", json!([])), &none));
    }

    #[test]
    fn an_affinity_reaches_other_namespaces_or_not() {
        let with = |term: Value| {
            let terms = json!([{ "weight": 1, "podAffinityTerm": term }]);
            json!({ "spec": { "affinity": { "podAntiAffinity":
                { "preferredDuringSchedulingIgnoredDuringExecution": terms } } } })
        };
        assert!(looks_abroad(&with(json!({ "namespaceSelector": {} }))));
        assert!(looks_abroad(&with(json!({ "namespaces": ["other"] }))));
        assert!(!looks_abroad(&with(json!({ "topologyKey": "zone" }))));
    }

    #[test]
    fn a_claim_is_in_the_scope_of_each_of_its_classes() {
        let claim = json!({ "spec": { "volumeAttributesClassName": "gold" },
            "status": { "currentVolumeAttributesClassName": "silver" } });
        let scope = |values: Value| json!({ "scopeName": "VolumeAttributesClass", "operator": "In", "values": values });
        assert!(has_claim(&scope(json!(["silver"])), &claim));
        assert!(has_claim(&scope(json!(["gold"])), &claim));
        assert!(!has_claim(&scope(json!(["bronze"])), &claim));
    }
}
