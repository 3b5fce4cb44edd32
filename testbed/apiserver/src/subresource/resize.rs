//! `pods/resize`: how much CPU and memory the containers of a Pod get, changed while it runs.
//! Whether a node can give it is not known here.

use std::sync::Arc;

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::{Resource, View};
use aplomb_apimachinery::status::ApiError;
use aplomb_builtin_kinds::qos_class;
use serde_json::{Map, Value, json};

use super::whole::{judged, move_generation, take_stated};

/// The resources of a Pod's containers.
#[derive(Debug)]
pub(super) struct Resize {
    pub(super) parent: Arc<Resource>,
}

const LISTS: [&str; 2] = ["containers", "initContainers"];
const MUTABLE: [&str; 2] = ["cpu", "memory"];

impl View for Resize {
    fn name(&self) -> &'static str {
        "resize"
    }

    fn parent(&self) -> &Arc<Resource> {
        &self.parent
    }

    fn take_back(&self, object: &Value, shown: Value, _now: &str) -> Result<Value, ApiError> {
        let mut changed = resized(object, &shown);
        take_stated(&mut changed, &shown);
        move_generation(&mut changed, object);
        let errors = self.errors(&changed, object);
        judged(&self.parent, changed, &errors)
    }
}

impl Resize {
    fn errors(&self, pod: &Value, old: &Value) -> Vec<FieldError> {
        let forbidden = |why: &str| vec![FieldError::forbidden("", why)];
        if old["metadata"]["annotations"]
            .get("kubernetes.io/config.mirror")
            .is_some()
        {
            return forbidden("static pods cannot be resized");
        }
        if old["spec"]["os"]["name"] == "windows" {
            return forbidden("windows pods cannot be resized");
        }
        let mut errors = self.parent.strategy.validate_create(pod);
        let class = object::text(&old["status"], "qosClass");
        if class != qos_class(&pod["spec"]) {
            let why = "Pod QOS Class may not change as a result of resizing";
            errors.push(FieldError::invalid("spec", class, why));
        }
        if !node_can(old) {
            let why = "Pod running on node without support for resize";
            errors.push(FieldError::forbidden("spec", why));
        }
        errors.extend(whole_pod(&pod["spec"]["resources"], &old["spec"]["resources"]));
        let order = order(pod, old);
        if !order.is_empty() {
            errors.extend(order);
            return errors;
        }
        errors.extend(LISTS.iter().rev().flat_map(|list| removed(pod, old, list)));
        errors.extend(LISTS.iter().flat_map(|list| others(pod, old, list)));
        errors
    }
}

/// The Pod as it was, but for the resources of its containers; other containers are left for
/// [`order`] to refuse.
fn resized(old: &Value, shown: &Value) -> Value {
    let mut pod = old.clone();
    let length = |pod: &Value, list: &str| containers(pod, list).len();
    if LISTS.iter().any(|list| length(old, list) != length(shown, list)) {
        pod["spec"] = shown["spec"].clone();
        return pod;
    }
    set_or_remove(&mut pod["spec"], "resources", shown["spec"].get("resources"));
    for list in LISTS {
        let same = |(a, b): (&Value, &Value)| a["name"] == b["name"];
        let wanted = containers(shown, list);
        if !containers(old, list).iter().zip(wanted).all(same) {
            pod["spec"][list] = shown["spec"][list].clone();
            continue;
        }
        let own = pod["spec"].get_mut(list).and_then(Value::as_array_mut);
        for (container, wanted) in own.into_iter().flatten().zip(wanted) {
            for member in ["resources", "resizePolicy"] {
                set_or_remove(container, member, wanted.get(member));
            }
        }
    }
    pod
}

fn set_or_remove(object: &mut Value, member: &str, value: Option<&Value>) {
    let Some(members) = object.as_object_mut() else {
        return;
    };
    match value {
        Some(value) => members.insert(member.to_owned(), value.clone()),
        None => members.remove(member),
    };
}

fn containers<'a>(pod: &'a Value, list: &str) -> &'a [Value] {
    pod["spec"][list].as_array().map_or(&[], Vec::as_slice)
}

/// A running container says by its own resources that its node can resize.
fn node_can(pod: &Value) -> bool {
    let statuses = pod["status"]["containerStatuses"].as_array();
    let running = statuses
        .into_iter()
        .flatten()
        .find(|status| status["state"].get("running").is_some());
    running.is_none_or(|status| status.get("resources").is_some())
}

fn order(pod: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for list in LISTS {
        let (new, old) = (containers(pod, list), containers(old, list));
        let field = format!("spec.{list}");
        if new.len() != old.len() {
            let why = format!("{list} may not be added or removed on resize");
            errors.push(FieldError::forbidden(field, why));
            continue;
        }
        for (index, (new, old)) in new.iter().zip(old).enumerate() {
            if new["name"] != old["name"] {
                let why = format!("{list} may not be renamed or reordered on resize");
                errors.push(FieldError::forbidden(format!("{field}[{index}].name"), why));
            }
        }
    }
    errors
}

/// What was asked for or limited stays so, with whatever amount.
fn removed(pod: &Value, old: &Value, list: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let pairs = containers(pod, list).iter().zip(containers(old, list));
    for (index, (new, old)) in pairs.enumerate() {
        for which in ["requests", "limits"] {
            if lacks(&new["resources"][which], &old["resources"][which]) {
                let field = format!("spec.{list}[{index}].resources.{which}");
                let why = format!("resource {which} cannot be removed");
                errors.push(FieldError::forbidden(field, why));
            }
        }
    }
    errors
}

fn lacks(new: &Value, old: &Value) -> bool {
    let mut names = old.as_object().into_iter().flat_map(Map::keys);
    names.any(|name| new.get(name).is_none())
}

/// Nothing but the amounts of CPU and memory may differ.
fn others(pod: &Value, old: &Value, list: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let pairs = containers(pod, list).iter().zip(containers(old, list));
    for (index, (new, old)) in pairs.enumerate() {
        let mut as_before = new.clone();
        as_before["resources"] = but_for_mutable(&new["resources"], &old["resources"]);
        let mut before = old.clone();
        before["resources"] = but_for_mutable(&old["resources"], &old["resources"]);
        if as_before == before {
            continue;
        }
        errors.push(if list == "containers" {
            FieldError::forbidden("spec", "only cpu and memory resources are mutable")
        } else {
            let why = "only cpu and memory resources for init or sidecar containers are mutable";
            FieldError::forbidden(format!("spec.{list}[{index}]"), why)
        });
    }
    errors
}

/// Requests and limits with the CPU and memory they had.
fn but_for_mutable(new: &Value, old: &Value) -> Value {
    let of = |which: &str| {
        let mut amounts = new[which].as_object().cloned().unwrap_or_default();
        for name in MUTABLE {
            amounts.remove(name);
            let before = old[which].get(name).cloned();
            amounts.extend(before.map(|amount| (name.to_owned(), amount)));
        }
        amounts
    };
    json!({ "requests": of("requests"), "limits": of("limits") })
}

/// The resources of the Pod as a whole.
fn whole_pod(new: &Value, old: &Value) -> Vec<FieldError> {
    if old.is_object() && !new.is_object() {
        let why = "pod-level resources cannot be removed";
        return vec![FieldError::forbidden("spec.resources", why)];
    }
    let mut errors = Vec::new();
    for which in ["requests", "limits"] {
        if lacks(&new[which], &old[which]) {
            let why = format!("pod-level resource {which} cannot be removed");
            errors.push(FieldError::forbidden(format!("spec.resources.{which}"), why));
        }
    }
    if but_for_mutable(new, old) != but_for_mutable(old, old) {
        let why = "only cpu and memory resources are mutable at pod-level";
        errors.push(FieldError::forbidden("spec", why));
    }
    errors
}
