//! What a pod asks for as a whole: its containers together, or what its init containers need one
//! after the other beside the sidecars that already run, whichever is more.

use serde_json::Value;

use super::super::value::{list, text};
use super::amounts::{Amounts, add, raise, read};

/// The sum over the containers of a pod, each counted by `amounts`.
pub(in super::super) fn of_containers(pod: &Value, amounts: impl Fn(&Value) -> Amounts) -> Amounts {
    let mut sum = Amounts::new();
    for container in list(pod, &["spec", "containers"]) {
        add(&mut sum, &amounts(container));
    }
    let (mut sidecars, mut highest) = (Amounts::new(), Amounts::new());
    for container in list(pod, &["spec", "initContainers"]) {
        let mut own = amounts(container);
        if text(container, &["restartPolicy"]) == "Always" {
            add(&mut sum, &own);
            add(&mut sidecars, &own);
            raise(&mut highest, &sidecars);
        } else {
            add(&mut own, &sidecars);
            raise(&mut highest, &own);
        }
    }
    raise(&mut sum, &highest);
    sum
}

/// Takes what the pod says of itself over what its containers say, for resources that `may` be said so.
pub(in super::super) fn override_by_pod(sum: &mut Amounts, pod: &Value, which: &str, may: impl Fn(&str) -> bool) {
    let own = read(pod, &["spec", "resources", which]);
    sum.extend(own.into_iter().filter(|(name, _)| may(name)));
}

/// What may be asked for by a pod as a whole.
pub(in super::super) fn is_compute(name: &str) -> bool {
    matches!(name, "cpu" | "memory")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::amounts::shown;
    use super::*;

    fn asked(pod: &Value) -> String {
        shown(&of_containers(pod, |it| read(it, &["resources", "requests"])))
    }

    fn container(cpu: &str, policy: Option<&str>) -> Value {
        json!({ "restartPolicy": policy, "resources": { "requests": { "cpu": cpu } } })
    }

    #[test]
    fn containers_are_together_and_init_containers_one_by_one() {
        let spec = json!({
            "containers": [container("1", None), container("500m", None)],
            "initContainers": [container("1", None), container("1200m", None)],
        });
        assert_eq!(asked(&json!({ "spec": spec })), "cpu=1500m");
        let spec = json!({
            "containers": [container("1", None)],
            "initContainers": [container("3", None), container("2", None)],
        });
        assert_eq!(asked(&json!({ "spec": spec })), "cpu=3");
    }

    #[test]
    fn sidecars_run_beside_what_comes_after_them() {
        let spec = json!({
            "containers": [container("1", None)],
            "initContainers": [
                container("2", None),
                container("1", Some("Always")),
                container("3", None),
            ],
        });
        assert_eq!(asked(&json!({ "spec": spec })), "cpu=4");
        let spec = json!({
            "containers": [container("1", None)],
            "initContainers": [container("1", Some("Always")), container("1", Some("Always"))],
        });
        assert_eq!(asked(&json!({ "spec": spec })), "cpu=3");
    }
}
