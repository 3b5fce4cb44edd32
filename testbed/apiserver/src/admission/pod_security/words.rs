//! How the server lists what it objects to. Wording only.

use serde_json::Value;

use super::pod::Pod;

/// `one` or `many` of something.
pub(super) fn plural(count: usize, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

/// Names in quotes, which nothing in them escapes.
pub(super) fn quoted<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> String {
    let quoted = names.into_iter().map(|it| format!("\"{}\"", it.as_ref()));
    quoted.collect::<Vec<_>>().join(", ")
}

/// Containers by name.
pub(super) fn containers(names: &[&str]) -> String {
    let what = plural(names.len(), "container", "containers");
    format!("{what} {}", quoted(names))
}

/// The containers that leave a member of their security context unsaid, where their Pod does too.
pub(super) fn silent(pod: &Pod<'_>, member: &str) -> Option<String> {
    let says_nothing = |of: &Value| of["securityContext"][member].is_null();
    let found = pod.containers_that(says_nothing);
    (says_nothing(pod.spec()) && !found.is_empty()).then(|| containers(&found))
}

/// Who set something in a security context: the Pod for all of its containers, or some of them.
#[derive(Debug)]
pub(super) struct Setters<'a> {
    pod: bool,
    containers: Vec<&'a str>,
}

impl<'a> Setters<'a> {
    /// Whoever has a security context of which `set` is true.
    pub(super) fn of(pod: &Pod<'a>, mut set: impl FnMut(&'a Value) -> bool) -> Self {
        Self {
            pod: set(&pod.spec()["securityContext"]),
            containers: pod.containers_that(|container| set(&container["securityContext"])),
        }
    }

    /// Whether there is nobody.
    pub(super) fn is_empty(&self) -> bool {
        !self.pod && self.containers.is_empty()
    }

    /// Who they are, with `others` as the last of them.
    pub(super) fn and(&self, others: Option<&str>) -> String {
        let containers = (!self.containers.is_empty()).then(|| containers(&self.containers));
        let all = [
            self.pod.then(|| "pod".to_owned()),
            containers,
            others.map(str::to_owned),
        ];
        all.into_iter().flatten().collect::<Vec<_>>().join(" and ")
    }

    /// Who they are.
    pub(super) fn words(&self) -> String {
        self.and(None)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn those_who_set_something_are_named_from_the_pod_down() {
        let mut pod = json!({ "spec": { "containers": [
            { "name": "a", "securityContext": { "x": 1 } }, { "name": "b" },
        ]}});
        let words = |pod: &Value| Setters::of(&Pod::of(pod), |it| it["x"] == 1).words();
        assert_eq!(words(&pod), "container \"a\"");
        pod["spec"]["containers"][1]["securityContext"]["x"] = json!(1);
        pod["spec"]["securityContext"]["x"] = json!(1);
        assert_eq!(words(&pod), "pod and containers \"a\", \"b\"");
        assert!(Setters::of(&Pod::of(&pod), |it| it["x"] == 2).is_empty());
    }
}
