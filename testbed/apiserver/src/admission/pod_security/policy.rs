//! What a namespace asks for: a level and a version for each of the three modes, from its labels.
//!
//! Pure. What a level forbids is not known here.

use aplomb_apimachinery::field::FieldError;
use serde_json::{Map, Value};

use super::standard::{Level, Standard, Version};

/// What labels and audit annotations of PodSecurity start with.
pub(super) const PREFIX: &str = "pod-security.kubernetes.io/";

/// What is refused, what is noted in the audit log, and what is warned about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) enforce: Standard,
    pub(super) audit: Standard,
    pub(super) warn: Standard,
}

impl Policy {
    /// Whether nothing is forbidden to anybody.
    pub(super) fn is_privileged(&self) -> bool {
        self.enforce.level == Level::Privileged && self.only_enforces()
    }

    /// Whether nothing is said about what is let through.
    pub(super) fn only_enforces(&self) -> bool {
        self.audit.level == Level::Privileged && self.warn.level == Level::Privileged
    }
}

/// What the labels of a namespace ask for, and what in them is not understood.
pub(super) fn of(namespace: &Value) -> (Policy, Vec<FieldError>) {
    let labels = namespace["metadata"]["labels"].as_object();
    match labels.filter(|labels| labels.keys().any(|key| key.starts_with(PREFIX))) {
        Some(labels) => read(labels),
        None => (Policy::default(), Vec::new()),
    }
}

/// A level that is not understood forbids the most where it is enforced, and nothing elsewhere.
fn read(labels: &Map<String, Value>) -> (Policy, Vec<FieldError>) {
    let mut errors = Vec::new();
    let has = |name: &str| labels.contains_key(&format!("{PREFIX}{name}"));
    let mut enforce = mode(labels, "enforce", &mut errors);
    let audit = mode(labels, "audit", &mut errors);
    let mut warn = mode(labels, "warn", &mut errors);
    // Who enforces and does not speak of warnings is warned about the same.
    if !has("warn") && enforce.level > Some(Level::Privileged) {
        warn.level = enforce.level;
        if !has("warn-version") {
            warn.version = enforce.version;
        }
    }
    if has("enforce") && enforce.level.is_none() {
        enforce.level = Some(Level::Restricted);
    }
    let policy = Policy {
        enforce: enforce.standard(),
        audit: audit.standard(),
        warn: warn.standard(),
    };
    (policy, errors)
}

/// What labels say about one mode, as far as they are understood.
#[derive(Clone, Copy, Debug)]
struct Stated {
    level: Option<Level>,
    version: Option<Version>,
}

impl Stated {
    fn standard(self) -> Standard {
        Standard {
            level: self.level.unwrap_or_default(),
            version: self.version.unwrap_or_default(),
        }
    }
}

fn mode(labels: &Map<String, Value>, name: &str, errors: &mut Vec<FieldError>) -> Stated {
    Stated {
        level: label(labels, name, errors, Level::parse),
        version: label(labels, &format!("{name}-version"), errors, Version::parse),
    }
}

/// What a label says; `None` too when it is not understood, which is an error.
fn label<T>(
    labels: &Map<String, Value>,
    name: &str,
    errors: &mut Vec<FieldError>,
    parse: impl Fn(&str) -> Result<T, &'static str>,
) -> Option<T> {
    let key = format!("{PREFIX}{name}");
    let text = labels.get(&key)?.as_str().unwrap_or_default();
    match parse(text) {
        Ok(value) => Some(value),
        Err(why) => {
            let field = format!("metadata.labels[{key}]");
            errors.push(FieldError::invalid(field, text, why));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_of(labels: &[(&str, &str)]) -> (String, Vec<String>) {
        let labels: Map<String, Value> = labels
            .iter()
            .map(|(mode, value)| (format!("{PREFIX}{mode}"), json!(value)))
            .collect();
        let (policy, errors) = of(&json!({ "metadata": { "labels": labels } }));
        let Policy { enforce, audit, warn } = policy;
        let errors = errors.iter().map(FieldError::message).collect();
        (format!("{enforce} {audit} {warn}"), errors)
    }

    #[test]
    fn warnings_follow_what_is_enforced_unless_labels_speak_of_them() {
        let policy = |labels: &[(&str, &str)]| read_of(labels).0;
        let nothing = "privileged:latest privileged:latest privileged:latest";
        assert_eq!(policy(&[]), nothing);
        assert_eq!(policy(&[("other", "restricted")]), nothing);
        assert_eq!(
            policy(&[("enforce", "baseline"), ("enforce-version", "v1.20")]),
            "baseline:v1.20 privileged:latest baseline:v1.20"
        );
        assert_eq!(
            policy(&[("enforce", "restricted"), ("warn", "baseline")]),
            "restricted:latest privileged:latest baseline:latest"
        );
        assert_eq!(
            policy(&[("enforce", "restricted"), ("warn-version", "v1.0")]),
            "restricted:latest privileged:latest restricted:v1.0"
        );
        assert_eq!(
            policy(&[("audit", "baseline"), ("audit-version", "v1.99")]),
            "privileged:latest baseline:v1.99 privileged:latest"
        );
    }

    #[test]
    fn what_is_not_understood_is_enforced_at_its_most_and_told_nobody() {
        let (policy, errors) = read_of(&[
            ("enforce", "Baseline"),
            ("enforce-version", "v1.01"),
            ("audit", ""),
            ("warn", "none"),
            ("warn-version", "v2.0"),
        ]);
        assert_eq!(policy, "restricted:latest privileged:latest privileged:latest");
        let levels = "must be one of privileged, baseline, restricted";
        let versions = "must be \"latest\" or \"v1.x\"";
        let said = [
            format!("enforce]: Invalid value: \"Baseline\": {levels}"),
            format!("enforce-version]: Invalid value: \"v1.01\": {versions}"),
            format!("audit]: Invalid value: \"\": {levels}"),
            format!("warn]: Invalid value: \"none\": {levels}"),
            format!("warn-version]: Invalid value: \"v2.0\": {versions}"),
        ];
        assert_eq!(errors, said.map(|it| format!("metadata.labels[{PREFIX}{it}")));
    }
}
