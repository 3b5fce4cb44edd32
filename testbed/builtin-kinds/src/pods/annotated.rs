//! What the server says about annotations that are older than the fields for AppArmor and seccomp.
//!
//! Warnings only: nothing is taken over from an annotation into a field.

use serde_json::{Value, json};

use super::super::value::{at, has, text};

const SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Warnings about a Pod, or about the template at `path`, as a whole.
pub(super) fn of_pod(holder: &Value, path: &str) -> Option<String> {
    let field = has(holder, &["spec", "securityContext", "seccompProfile"]);
    let annotated = has(holder, &["metadata", "annotations", SECCOMP]);
    (annotated && !field).then(|| without_effect(path, SECCOMP))
}

/// Warnings about one container of it.
pub(super) fn of_container(holder: &Value, path: &str, container: &Value) -> Vec<String> {
    let name = text(container, &["name"]);
    let annotation = |prefix: &str| {
        let key = format!("{prefix}{name}");
        let value = at(holder, &["metadata", "annotations", &key]).as_str()?;
        Some((key, value))
    };
    let mut warnings = Vec::new();
    if !has(container, &["securityContext", "seccompProfile"])
        && let Some((key, _)) = annotation(SECCOMP_OF_CONTAINER)
    {
        warnings.push(without_effect(path, &key));
    }
    // What is said of a Pod's own annotations depends on what was copied from them.
    let is_template = !path.is_empty();
    let of_pod = at(holder, &["spec", "securityContext", "appArmorProfile"]);
    if is_template
        && !has(container, &["securityContext", "appArmorProfile"])
        && let Some((key, value)) = annotation(APP_ARMOR)
        && (of_pod.is_null() || *of_pod != profile(value))
    {
        let place = place(path, &key);
        warnings.push(format!(
            "{place}: deprecated since v1.30; use the \"appArmorProfile\" field instead"
        ));
    }
    warnings
}

/// The profile an annotation stands for; null when it stands for none.
fn profile(annotation: &str) -> Value {
    match annotation {
        "unconfined" => json!({ "type": "Unconfined" }),
        "runtime/default" => json!({ "type": "RuntimeDefault" }),
        other => match other.strip_prefix("localhost/") {
            None | Some("") => Value::Null,
            Some(name) => json!({ "type": "Localhost", "localhostProfile": name }),
        },
    }
}

fn without_effect(path: &str, key: &str) -> String {
    let place = place(path, key);
    format!("{place}: non-functional in v1.27+; use the \"seccompProfile\" field instead")
}

fn place(path: &str, key: &str) -> String {
    let dot = if path.is_empty() { "" } else { "." };
    format!("{path}{dot}metadata.annotations[{key}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_are_warned_about_where_no_field_says_the_same() {
        let mut holder = json!({ "metadata": { "annotations": {
            SECCOMP: "unconfined",
            format!("{SECCOMP_OF_CONTAINER}a"): "unconfined",
            format!("{APP_ARMOR}a"): "localhost/x",
        }}, "spec": { "securityContext": {} } });
        let container = json!({ "name": "a" });
        let of_seccomp = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
        assert_eq!(
            of_pod(&holder, ""),
            Some(format!("metadata.annotations[{SECCOMP}]: {of_seccomp}"))
        );
        assert_eq!(of_container(&holder, "", &container).len(), 1);
        let said = of_container(&holder, "spec.template", &container);
        let at = "spec.template.metadata.annotations";
        let of_armor = "deprecated since v1.30; use the \"appArmorProfile\" field instead";
        assert_eq!(
            said,
            [
                format!("{at}[{SECCOMP_OF_CONTAINER}a]: {of_seccomp}"),
                format!("{at}[{APP_ARMOR}a]: {of_armor}"),
            ]
        );
        holder["spec"]["securityContext"] = json!({
            "seccompProfile": { "type": "RuntimeDefault" },
            "appArmorProfile": { "type": "Localhost", "localhostProfile": "x" },
        });
        assert_eq!(of_pod(&holder, ""), None);
        assert_eq!(of_container(&holder, "spec.template", &container).len(), 1);
    }
}
