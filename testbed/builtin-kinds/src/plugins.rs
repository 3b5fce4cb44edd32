//! What the admission plugins every server runs fill into new objects from others that are there, and
//! what they refuse: priorities, runtime classes, limits, default classes.
//!
//! Pure: the caller says what is there.

mod limits;

use std::sync::Arc;

use aplomb_apimachinery::field::go_quote;
use serde_json::Value;

use super::classes::SYSTEM;
use super::storage::classes::is_default;
use super::value::{at, default_to, has, list, members, number, set, text};

/// All objects of a group and plural; those of the object's namespace where they are namespaced.
pub type Peers<'a> = dyn Fn(&str, &str) -> Vec<Arc<Value>> + 'a;

const INGRESS_DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";

/// Fills in a new object of `kind`.
///
/// # Errors
/// Why the object is forbidden.
pub fn admit(kind: &str, object: &mut Value, peers: &Peers<'_>) -> Result<(), String> {
    match kind {
        "Pod" => {
            priority(object, peers)?;
            runtime_class(object, peers)?;
            fill_limits(object, peers);
            Ok(())
        }
        "PersistentVolumeClaim" => {
            storage_class(object, peers);
            Ok(())
        }
        "Ingress" => {
            ingress_class(object, peers);
            Ok(())
        }
        "PriorityClass" => one_default(object, peers),
        _ => Ok(()),
    }
}

/// Gives the containers of a pod the limits they do not name.
pub fn fill_limits(pod: &mut Value, peers: &Peers<'_>) {
    limits::fill(pod, &peers("", "limitranges"));
}

/// Judges an object of `kind` as it would be stored.
///
/// # Errors
/// Why the object is forbidden.
pub fn judge(kind: &str, object: &Value, peers: &Peers<'_>) -> Result<(), String> {
    match kind {
        "Pod" => limits::pod(object, &peers("", "limitranges")),
        "PersistentVolumeClaim" => limits::claim(object, &peers("", "limitranges")),
        _ => Ok(()),
    }
}

fn named(object: &Value) -> &str {
    text(object, &["metadata", "name"])
}

fn priority_classes(peers: &Peers<'_>) -> Vec<Arc<Value>> {
    peers("scheduling.k8s.io", "priorityclasses")
}

fn default_priority(classes: &[Arc<Value>]) -> Option<&Arc<Value>> {
    let defaults = classes.iter().filter(|class| at(class, &["globalDefault"]) == true);
    defaults.min_by_key(|class| number(class, &["value"]).unwrap_or(0))
}

/// A pod has the priority of its class, or of the default one.
fn priority(pod: &mut Value, peers: &Peers<'_>) -> Result<(), String> {
    let classes = priority_classes(peers);
    let wanted = text(pod, &["spec", "priorityClassName"]).to_owned();
    let class = if wanted.is_empty() {
        default_priority(&classes)
    } else {
        classes.iter().find(|class| named(class) == wanted)
    };
    let known = SYSTEM.iter().find(|(name, _)| *name == wanted);
    let (value, policy) = match (class, known) {
        (Some(class), _) => {
            let policy = text(class, &["preemptionPolicy"]).to_owned();
            (number(class, &["value"]).unwrap_or(0), policy)
        }
        (None, Some((_, value))) => (*value, "PreemptLowerPriority".to_owned()),
        (None, None) if wanted.is_empty() => (0, "PreemptLowerPriority".to_owned()),
        (None, None) => return Err(format!("no PriorityClass with name {wanted} was found")),
    };
    let from = "from the given PriorityClass name";
    if let Some(given) = number(pod, &["spec", "priority"]).filter(|given| *given != value) {
        return Err(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {value} {from}"
        ));
    }
    let given = text(pod, &["spec", "preemptionPolicy"]);
    if !given.is_empty() && given != policy {
        return Err(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} {from}"
        ));
    }
    if let Some(class) = class {
        set(pod, &["spec", "priorityClassName"], named(class).into());
    }
    set(pod, &["spec", "priority"], value.into());
    set(pod, &["spec", "preemptionPolicy"], policy.into());
    Ok(())
}

fn one_default(class: &Value, peers: &Peers<'_>) -> Result<(), String> {
    if at(class, &["globalDefault"]) != true {
        return Ok(());
    }
    match default_priority(&priority_classes(peers)) {
        Some(there) => Err(format!(
            "PriorityClass {} is already marked as default. Only one default can exist",
            named(there)
        )),
        None => Ok(()),
    }
}

/// A pod takes the overhead and the scheduling of its runtime class.
fn runtime_class(pod: &mut Value, peers: &Peers<'_>) -> Result<(), String> {
    let Some(wanted) = at(pod, &["spec", "runtimeClassName"]).as_str() else {
        return Ok(());
    };
    let classes = peers("node.k8s.io", "runtimeclasses");
    let Some(class) = classes.iter().find(|class| named(class) == wanted) else {
        let quoted = go_quote(wanted);
        return Err(format!("pod rejected: RuntimeClass {quoted} not found"));
    };
    let overhead = at(class, &["overhead", "podFixed"]);
    if !overhead.is_null() {
        set(pod, &["spec", "overhead"], overhead.clone());
    }
    for (key, value) in members(class, &["scheduling", "nodeSelector"]) {
        set(pod, &["spec", "nodeSelector", key], value.clone());
    }
    let mut tolerations = list(pod, &["spec", "tolerations"]).to_vec();
    for toleration in list(class, &["scheduling", "tolerations"]) {
        if !tolerations.contains(toleration) {
            tolerations.push(toleration.clone());
        }
    }
    if !tolerations.is_empty() {
        set(pod, &["spec", "tolerations"], tolerations.into());
    }
    Ok(())
}

/// The youngest of the default classes, by name among those of an age.
fn youngest<'a>(classes: impl Iterator<Item = &'a Arc<Value>>) -> Option<&'a str> {
    let created = |class: &Value| text(class, &["metadata", "creationTimestamp"]).to_owned();
    let mut defaults: Vec<&Arc<Value>> = classes.collect();
    defaults.sort_by(|a, b| created(b).cmp(&created(a)).then_with(|| named(a).cmp(named(b))));
    defaults.first().map(|class| named(class))
}

fn storage_class(claim: &mut Value, peers: &Peers<'_>) {
    const OLD: &str = "volume.beta.kubernetes.io/storage-class";
    if has(claim, &["spec", "storageClassName"]) || has(claim, &["metadata", "annotations", OLD]) {
        return;
    }
    let classes = peers("storage.k8s.io", "storageclasses");
    let default = youngest(classes.iter().filter(|class| is_default(class)));
    if let (Some(name), Some(spec)) = (default, claim.get_mut("spec")) {
        default_to(spec, "storageClassName", name);
    }
}

fn ingress_class(ingress: &mut Value, peers: &Peers<'_>) {
    const OLD: &str = "kubernetes.io/ingress.class";
    if has(ingress, &["spec", "ingressClassName"]) || has(ingress, &["metadata", "annotations", OLD]) {
        return;
    }
    let classes = peers("networking.k8s.io", "ingressclasses");
    let is_default = |class: &&Arc<Value>| text(class, &["metadata", "annotations", INGRESS_DEFAULT]) == "true";
    if let Some(name) = youngest(classes.iter().filter(is_default)) {
        set(ingress, &["spec", "ingressClassName"], name.into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn there(group: &'static str, plural: &'static str, object: Value) -> Box<Peers<'static>> {
        let object = Arc::new(object);
        Box::new(move |asked, of| match (asked, of) == (group, plural) {
            true => vec![Arc::clone(&object)],
            false => Vec::new(),
        })
    }

    #[test]
    fn a_pod_has_the_priority_of_its_class_and_no_other() {
        let class = json!({ "metadata": { "name": "high" }, "value": 7, "preemptionPolicy": "Never" });
        let peers = there("scheduling.k8s.io", "priorityclasses", class);
        let mut pod = json!({ "spec": { "priorityClassName": "high" } });
        admit("Pod", &mut pod, &peers).expect("the class is there");
        assert_eq!(pod["spec"]["priority"], 7);
        assert_eq!(pod["spec"]["preemptionPolicy"], "Never");
        let mut lost = json!({ "spec": { "priorityClassName": "low" } });
        let refused = admit("Pod", &mut lost, &peers);
        assert_eq!(refused, Err("no PriorityClass with name low was found".to_owned()));
    }

    #[test]
    fn a_container_gets_the_limits_of_its_namespace_and_stays_within() {
        let limit = json!({ "type": "Container", "default": { "cpu": "3" },
            "defaultRequest": { "cpu": "1" }, "max": { "cpu": "2" } });
        let peers = there("", "limitranges", json!({ "spec": { "limits": [limit] } }));
        let mut pod = json!({ "spec": { "containers": [{ "name": "a" }] } });
        admit("Pod", &mut pod, &peers).expect("filling in refuses nothing");
        assert_eq!(pod["spec"]["containers"][0]["resources"]["limits"]["cpu"], "3");
        let why = "maximum cpu usage per Container is 2, but limit is 3";
        assert_eq!(judge("Pod", &pod, &peers), Err(why.to_owned()));
    }
}
