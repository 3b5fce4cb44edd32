//! What the server's own controllers do to a CustomResourceDefinition: accept its names, establish
//! it, and take it down together with its instances.
//!
//! Each step takes a definition and returns it changed, or nothing when there is nothing to do.
//! When the steps happen is decided elsewhere; `now` is printed as `metav1.Time`.

use std::collections::BTreeSet;

use aplomb_apimachinery::field::go_quote;
use serde_json::{Map, Value, json};

use super::{is_true_condition, text, texts};

/// Holds a definition until its instances are gone.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Checks the wanted names against those `peers` of the same group hold, and says so in the status.
#[must_use]
pub fn accept_names(crd: &Value, peers: &[&Value], now: &str) -> Option<Value> {
    let wanted = &crd["spec"]["names"];
    let accepted = &crd["status"]["acceptedNames"];
    if wanted == accepted {
        return None;
    }
    let taken = Taken::among(crd, peers);
    let (names, problem) = decide(wanted, accepted, &taken);
    let condition = match problem {
        Some((reason, message)) => condition("NamesAccepted", "False", reason, &message),
        None => condition("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
    };
    if names == *accepted && same_condition(find(crd, "NamesAccepted"), &condition) {
        return None;
    }
    let established = established_condition(crd, &condition);
    let mut changed = crd.clone();
    changed["status"]["acceptedNames"] = names;
    set_condition(&mut changed, condition, now);
    set_condition(&mut changed, established, now);
    Some(changed)
}

/// Says that a definition with accepted names is served.
#[must_use]
pub fn establish(crd: &Value, now: &str) -> Option<Value> {
    if !is_true_condition(crd, "NamesAccepted") || is_true_condition(crd, "Established") {
        return None;
    }
    let mut changed = crd.clone();
    let message = "the initial names have been accepted";
    set_condition(
        &mut changed,
        condition("Established", "True", "InitialNamesAccepted", message),
        now,
    );
    Some(changed)
}

/// The first DELETE: the definition stays, with a finalizer, until its instances are gone.
#[must_use]
pub fn mark_deleted(crd: &Value, now: &str) -> Value {
    let mut changed = crd.clone();
    changed["metadata"]["deletionTimestamp"] = now.into();
    let finalizers = &mut changed["metadata"]["finalizers"];
    match finalizers {
        Value::Array(items) if items.iter().any(|item| item == CLEANUP_FINALIZER) => {}
        Value::Array(items) => items.push(CLEANUP_FINALIZER.into()),
        other => *other = json!([CLEANUP_FINALIZER]),
    }
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set_condition(
        &mut changed,
        condition("Terminating", "True", "InstanceDeletionPending", message),
        now,
    );
    changed
}

/// Says that instances are being deleted.
#[must_use]
pub fn deletion_in_progress(crd: &Value, now: &str) -> Value {
    let mut changed = crd.clone();
    let message = "CustomResource deletion is in progress";
    set_condition(
        &mut changed,
        condition("Terminating", "True", "InstanceDeletionInProgress", message),
        now,
    );
    changed
}

/// Says that no instance is left and lets go of the definition.
#[must_use]
pub fn deletion_completed(crd: &Value, now: &str) -> Value {
    let mut changed = crd.clone();
    let (reason, message) = if is_true_condition(crd, "Established") {
        ("InstanceDeletionCompleted", "removed all instances")
    } else {
        ("NeverEstablished", "resource was never established")
    };
    set_condition(&mut changed, condition("Terminating", "False", reason, message), now);
    if let Some(Value::Array(items)) = changed.pointer_mut("/metadata/finalizers") {
        items.retain(|item| item != CLEANUP_FINALIZER);
    }
    changed
}

/// Names other definitions of the group already have.
struct Taken {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

impl Taken {
    /// A definition's own accepted names count too: a name may not be moved to another role.
    fn among(crd: &Value, peers: &[&Value]) -> Self {
        let (mut resources, mut kinds) = (BTreeSet::new(), BTreeSet::new());
        let group = text(&crd["spec"], "group");
        for peer in peers
            .iter()
            .copied()
            .chain([crd])
            .filter(|p| text(&p["spec"], "group") == group)
        {
            let names = &peer["status"]["acceptedNames"];
            resources.extend(["plural", "singular"].map(|key| text(names, key).to_owned()));
            resources.extend(texts(names, "shortNames"));
            kinds.extend(["kind", "listKind"].map(|key| text(names, key).to_owned()));
        }
        Self { resources, kinds }
    }
}

type Problem = (&'static str, String);

/// Every name that is free becomes ours; the last conflict is the one reported.
fn decide(wanted: &Value, accepted: &Value, taken: &Taken) -> (Value, Option<Problem>) {
    let mut names = accepted.as_object().cloned().unwrap_or_default();
    let mut problem = None;
    let mut single = |names: &mut Map<String, Value>, key: &str, reason: &'static str, used: &BTreeSet<String>| {
        let name = text(wanted, key);
        if name != text(accepted, key) && used.contains(name) {
            problem = Some((reason, in_use(name)));
        } else {
            names.insert(key.to_owned(), name.into());
        }
    };
    single(&mut names, "plural", "PluralConflict", &taken.resources);
    single(&mut names, "singular", "SingularConflict", &taken.resources);
    single(&mut names, "kind", "KindConflict", &taken.kinds);
    single(&mut names, "listKind", "ListKindConflict", &taken.kinds);
    if let Some(short) = decide_short_names(wanted, accepted, taken, &mut names) {
        let later = problem
            .as_ref()
            .is_some_and(|(reason, _)| matches!(*reason, "KindConflict" | "ListKindConflict"));
        problem = if later { problem } else { Some(short) };
    }
    match wanted.get("categories") {
        Some(categories) => names.insert("categories".into(), categories.clone()),
        None => names.remove("categories"),
    };
    (Value::Object(names), problem)
}

fn decide_short_names(
    wanted: &Value,
    accepted: &Value,
    taken: &Taken,
    names: &mut Map<String, Value>,
) -> Option<Problem> {
    let ours = texts(accepted, "shortNames");
    let new = texts(wanted, "shortNames")
        .into_iter()
        .filter(|name| !ours.contains(name));
    let conflicts: Vec<String> = new
        .filter(|name| taken.resources.contains(name))
        .map(|n| in_use(&n))
        .collect();
    match conflicts.as_slice() {
        [] => {
            match wanted.get("shortNames") {
                Some(short) => names.insert("shortNames".into(), short.clone()),
                None => names.remove("shortNames"),
            };
            None
        }
        [only] => Some(("ShortNamesConflict", only.clone())),
        many => Some(("ShortNamesConflict", format!("[{}]", many.join(", ")))),
    }
}

fn in_use(name: &str) -> String {
    format!("{} is already in use", go_quote(name))
}

/// Established stays once it was; before that it follows the names.
fn established_condition(crd: &Value, names: &Value) -> Value {
    let old = find(crd, "Established").cloned();
    if old.as_ref().is_some_and(|old| text(old, "status") == "True") {
        return old.unwrap_or_default();
    }
    if text(names, "status") == "True" {
        return condition(
            "Established",
            "False",
            "Installing",
            "the initial names have been accepted",
        );
    }
    old.unwrap_or_else(|| condition("Established", "False", "NotAccepted", "not all names are accepted"))
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({ "type": kind, "status": status, "reason": reason, "message": message })
}

fn find<'a>(crd: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = crd.pointer("/status/conditions").and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .find(|condition| text(condition, "type") == kind)
}

fn same_condition(old: Option<&Value>, new: &Value) -> bool {
    old.is_some_and(|old| {
        ["status", "reason", "message"]
            .iter()
            .all(|key| old.get(*key) == new.get(*key))
    })
}

/// The time moves only when the status does.
fn set_condition(crd: &mut Value, mut condition: Value, now: &str) {
    let old = find(crd, text(&condition, "type"));
    let kept = old.filter(|old| old.get("status") == condition.get("status"));
    let time = kept.and_then(|old| old.get("lastTransitionTime")).cloned();
    condition["lastTransitionTime"] = time.unwrap_or_else(|| now.into());
    let kind = text(&condition, "type").to_owned();
    let conditions = &mut crd["status"]["conditions"];
    let Value::Array(items) = conditions else {
        *conditions = json!([condition]);
        return;
    };
    match items.iter_mut().find(|item| text(item, "type") == kind) {
        Some(item) => *item = condition,
        None => items.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crd(plural: &str, kind: &str, short: &[&str]) -> Value {
        json!({
            "metadata": { "name": format!("{plural}.example.com") },
            "spec": { "group": "example.com", "names": {
                "plural": plural, "singular": kind.to_lowercase(), "kind": kind,
                "listKind": format!("{kind}List"), "shortNames": short } },
            "status": { "conditions": null, "acceptedNames": { "plural": "", "kind": "" }, "storedVersions": ["v1"] }
        })
    }

    #[test]
    fn free_names_are_accepted_and_then_established() {
        let named = accept_names(&crd("foos", "Foo", &["f"]), &[], "t1").expect("names change");
        assert_eq!(
            find(&named, "Established").map(|c| text(c, "reason")),
            Some("Installing")
        );
        assert!(accept_names(&named, &[], "t2").is_none());
        let served = establish(&named, "t2").expect("established");
        let established = find(&served, "Established").expect("condition");
        assert_eq!(established["lastTransitionTime"], "t2");
        assert_eq!(served["status"]["acceptedNames"], served["spec"]["names"]);
        assert!(establish(&served, "t3").is_none());
    }

    #[test]
    fn a_taken_short_name_is_a_conflict() {
        let first = accept_names(&crd("foos", "Foo", &["f"]), &[], "t1").expect("names change");
        let second = accept_names(&crd("bars", "Bar", &["f"]), &[&first], "t1").expect("names change");
        let names = find(&second, "NamesAccepted").expect("condition");
        assert_eq!(
            (text(names, "status"), text(names, "reason")),
            ("False", "ShortNamesConflict")
        );
        assert_eq!(text(names, "message"), "\"f\" is already in use");
        assert_eq!(
            find(&second, "Established").map(|c| text(c, "reason")),
            Some("NotAccepted")
        );
    }

    #[test]
    fn deletion_waits_for_the_finalizer() {
        let marked = mark_deleted(&crd("foos", "Foo", &[]), "t1");
        assert_eq!(marked["metadata"]["finalizers"], json!([CLEANUP_FINALIZER]));
        let done = deletion_completed(&deletion_in_progress(&marked, "t2"), "t3");
        assert_eq!(done["metadata"]["finalizers"], json!([]));
        assert_eq!(
            find(&done, "Terminating").map(|c| text(c, "reason")),
            Some("NeverEstablished")
        );
    }
}
