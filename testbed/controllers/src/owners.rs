//! Who controls what: controller references, and which objects a controller may claim.
//!
//! The decision is a function of the two objects; carrying it out is a patch.

use std::sync::Arc;

use aplomb_apimachinery::labels::LabelSelector;
use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::Resource;
use aplomb_apimachinery::status::ApiError;
use aplomb_apiserver::storage::Key;
use serde_json::{Value, json};

use super::system_client::SystemClient;

/// The reference to the controller of an object.
pub(super) fn controller_of(object: &Value) -> Option<&Value> {
    let references = object.pointer("/metadata/ownerReferences")?.as_array()?;
    references.iter().find(|it| it["controller"] == true)
}

/// Whether `owner` is the controller of `object`.
pub(super) fn is_controlled_by(object: &Value, owner: &Value) -> bool {
    controller_of(object).is_some_and(|it| object::text(it, "uid") == object::uid(owner))
}

/// A reference that makes `owner` the controller of another object.
pub(super) fn controller_reference(owner: &Value) -> Value {
    json!({
        "apiVersion": object::text(owner, "apiVersion"),
        "kind": object::text(owner, "kind"),
        "name": object::name(owner),
        "uid": object::uid(owner),
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// The selector in `spec.selector`; without one nothing is selected.
pub(super) fn selector(owner: &Value) -> Option<LabelSelector> {
    let selector = owner.pointer("/spec/selector")?;
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let labels = labels.into_iter().flatten();
    let labels = labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or("")));
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    let expressions = expressions.into_iter().flatten().map(requirement);
    let text: Vec<String> = labels.chain(expressions).collect();
    LabelSelector::parse(&text.join(",")).ok()
}

fn requirement(expression: &Value) -> String {
    let key = object::text(expression, "key");
    let values = expression["values"].as_array().into_iter().flatten();
    let values: Vec<&str> = values.filter_map(Value::as_str).collect();
    match object::text(expression, "operator") {
        "In" => format!("{key} in ({})", values.join(",")),
        "NotIn" => format!("{key} notin ({})", values.join(",")),
        "Exists" => key.to_owned(),
        _ => format!("!{key}"),
    }
}

/// What a controller does about an object it may control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    Mine,
    Adopt,
    Release,
    Foreign,
}

fn claim(owner: &Value, selector: &LabelSelector, object: &Value) -> Claim {
    let leaving = object::is_terminating(owner);
    match controller_of(object) {
        Some(other) if object::text(other, "uid") != object::uid(owner) => Claim::Foreign,
        Some(_) if selector.matches(object) => Claim::Mine,
        Some(_) if leaving => Claim::Foreign,
        Some(_) => Claim::Release,
        None if leaving || object::is_terminating(object) => Claim::Foreign,
        None if selector.matches(object) => Claim::Adopt,
        None => Claim::Foreign,
    }
}

/// Of these objects of a resource, those that `owner` controls, once orphans that match are
/// adopted and those that no longer match are let go.
pub(super) async fn claimed(
    door: &SystemClient,
    owner: &Value,
    selector: &LabelSelector,
    resource: &Arc<Resource>,
    objects: Vec<Arc<Value>>,
) -> Result<Vec<Arc<Value>>, ApiError> {
    let mut mine = Vec::new();
    for object in objects {
        let place = Key {
            resource: resource.storage.clone(),
            namespace: object::namespace(&object).to_owned(),
            name: object::name(&object).to_owned(),
        };
        let change = match claim(owner, selector, &object) {
            Claim::Foreign => continue,
            Claim::Mine => {
                mine.push(object);
                continue;
            }
            Claim::Adopt => adopted(&object, owner),
            Claim::Release => released(&object, owner),
        };
        match door.merge(resource, &place, &change).await {
            Err(error) if matches!(error.code, 404 | 422) => continue,
            Err(error) => return Err(error),
            Ok(()) => {}
        }
        let now = door.server.store().get(&place);
        mine.extend(now.filter(|it| is_controlled_by(it, owner)));
    }
    Ok(mine)
}

fn references(object: &Value) -> Vec<Value> {
    let references = object.pointer("/metadata/ownerReferences");
    let references = references.and_then(Value::as_array).cloned();
    references.unwrap_or_default()
}

fn adopted(object: &Value, owner: &Value) -> Value {
    let mut references = references(object);
    references.retain(|it| object::text(it, "uid") != object::uid(owner));
    references.push(controller_reference(owner));
    edit(object, references)
}

fn released(object: &Value, owner: &Value) -> Value {
    let mut references = references(object);
    references.retain(|it| object::text(it, "uid") != object::uid(owner));
    edit(object, references)
}

fn edit(object: &Value, references: Vec<Value>) -> Value {
    let version = object::resource_version(object);
    let references = if references.is_empty() {
        Value::Null
    } else {
        references.into()
    };
    json!({ "metadata": {
        "uid": object::uid(object),
        "resourceVersion": version,
        "ownerReferences": references,
    } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> Value {
        let spec = json!({ "selector": { "matchLabels": { "app": "web" } } });
        json!({ "kind": "ReplicaSet", "metadata": { "uid": "1", "name": "web" }, "spec": spec })
    }

    fn claims(owner: &Value, label: &str, references: &Value) -> Claim {
        let metadata = json!({ "labels": { "app": label }, "ownerReferences": references });
        let object = json!({ "metadata": metadata });
        claim(owner, &selector(owner).unwrap(), &object)
    }

    #[test]
    fn orphans_that_match_are_adopted_and_others_let_go() {
        let by = |uid: &str| json!([{ "uid": uid, "controller": true }]);
        assert_eq!(claims(&owner(), "web", &json!([])), Claim::Adopt);
        assert_eq!(claims(&owner(), "db", &json!([])), Claim::Foreign);
        assert_eq!(claims(&owner(), "web", &by("1")), Claim::Mine);
        assert_eq!(claims(&owner(), "db", &by("1")), Claim::Release);
        assert_eq!(claims(&owner(), "web", &by("2")), Claim::Foreign);
    }

    #[test]
    fn an_owner_that_goes_takes_nothing_and_lets_nothing_go() {
        let mut owner = owner();
        owner["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let mine = json!([{ "uid": "1", "controller": true }]);
        assert_eq!(claims(&owner, "web", &json!([])), Claim::Foreign);
        assert_eq!(claims(&owner, "db", &mine), Claim::Foreign);
        assert_eq!(claims(&owner, "web", &mine), Claim::Mine);
    }

    #[test]
    fn expressions_select_too() {
        let expressions = json!([
            { "key": "app", "operator": "In", "values": ["web", "db"] },
            { "key": "old", "operator": "DoesNotExist" },
        ]);
        let owner = json!({ "spec": { "selector": { "matchExpressions": expressions } } });
        let selector = selector(&owner).unwrap();
        assert!(selector.matches_labels(&json!({ "app": "db" })));
        assert!(!selector.matches_labels(&json!({ "app": "db", "old": "" })));
    }
}
