//! A Pod, or the template of one, as the checks look at it, and which changes of one they look at.
//!
//! Accessors only: what is forbidden is in `checks`.

use serde_json::Value;

use aplomb_apimachinery::object;

/// The order in which containers are visited and named.
const LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// What there is to judge.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pod<'a> {
    metadata: &'a Value,
    spec: &'a Value,
}

impl<'a> Pod<'a> {
    /// Of a Pod or a template.
    pub(super) fn of(object: &'a Value) -> Self {
        Self {
            metadata: &object["metadata"],
            spec: &object["spec"],
        }
    }

    /// Its specification.
    pub(super) fn spec(&self) -> &'a Value {
        self.spec
    }

    /// Its annotations.
    pub(super) fn annotations(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let annotations = self.metadata["annotations"].as_object();
        let text = |(key, value): (&'a String, &'a Value)| (key.as_str(), string(value));
        annotations.into_iter().flatten().map(text)
    }

    /// Its containers of every sort.
    pub(super) fn containers(&self) -> impl Iterator<Item = &'a Value> {
        let spec = self.spec;
        LISTS.iter().flat_map(move |list| items(&spec[list]))
    }

    /// The names of the containers that are so.
    pub(super) fn containers_that(&self, mut are_so: impl FnMut(&'a Value) -> bool) -> Vec<&'a str> {
        let found = self.containers().filter(|container| are_so(container));
        found.map(|it| object::text(it, "name")).collect()
    }
}

/// Whether a Pod is declared to run on Windows, where half of the fields mean nothing.
pub(super) fn is_windows(pod: &Pod<'_>) -> bool {
    pod.spec["os"]["name"] == "windows"
}

/// Whether the users in a Pod are not those of the host.
pub(super) fn has_own_users(pod: &Pod<'_>) -> bool {
    pod.spec["hostUsers"] == false
}

/// A list's items; none when there is no list.
pub(super) fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

/// A text; empty when there is none.
pub(super) fn string(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Whether a change of a Pod is judged again: of all that may change in one, only images and
/// containers that were added matter.
pub(super) fn matters(new: &Value, old: &Value) -> bool {
    let (new, old) = (&new["spec"], &old["spec"]);
    let other_image = |(new, old): (&Value, &Value)| new["image"] != old["image"];
    let differ = |list: &str| {
        let (new, old) = (items(&new[list]), items(&old[list]));
        new.len() != old.len() || new.iter().zip(old).any(other_image)
    };
    let known = |name: &Value| {
        let mut old = items(&old["ephemeralContainers"]).iter();
        old.find(|container| container["name"] == *name)
    };
    let mut debuggers = items(&new["ephemeralContainers"]).iter();
    differ("containers")
        || differ("initContainers")
        || debuggers.any(|it| known(&it["name"]).is_none_or(|old| other_image((it, old))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn images_and_added_containers_matter_and_nothing_else() {
        let pod = |spec: Value| json!({ "spec": spec });
        let old = pod(json!({ "containers": [{ "name": "a", "image": "1" }],
            "ephemeralContainers": [{ "name": "d", "image": "1" }] }));
        let mut new = old.clone();
        new["metadata"] = json!({ "labels": { "a": "b" } });
        new["spec"]["tolerations"] = json!([{ "operator": "Exists" }]);
        new["spec"]["containers"][0]["resources"] = json!({ "limits": { "cpu": "1" } });
        assert!(!matters(&new, &old));
        let changes = [
            ("/containers/0/image", json!("2")),
            ("/ephemeralContainers/0/image", json!("2")),
            ("/ephemeralContainers/0/name", json!("e")),
        ];
        for (path, value) in changes {
            let mut new = old.clone();
            *new["spec"].pointer_mut(path).expect("it is there") = value;
            assert!(matters(&new, &old), "{path}");
        }
        let mut more = old.clone();
        more["spec"]["initContainers"] = json!([{ "name": "i", "image": "1" }]);
        assert!(matters(&more, &old));
        let mut fewer = old.clone();
        fewer["spec"]["ephemeralContainers"] = json!([]);
        assert!(!matters(&fewer, &old));
    }

    #[test]
    fn containers_are_visited_by_their_sort() {
        let pod = json!({ "spec": {
            "ephemeralContainers": [{ "name": "c" }],
            "containers": [{ "name": "b" }],
            "initContainers": [{ "name": "a" }],
        }});
        assert_eq!(Pod::of(&pod).containers_that(|_| true), ["a", "b", "c"]);
    }
}
