//! Sizes of replica sets in the phases of a rollout.

use serde_json::{Value, json};

use super::*;

fn deployment(desired: i64, surge: &Value, unavailable: &Value) -> Value {
    let rolling = json!({ "maxSurge": surge, "maxUnavailable": unavailable });
    json!({ "spec": { "replicas": desired, "strategy": {
        "type": "RollingUpdate", "rollingUpdate": rolling,
    } } })
}

fn set(name: &str, size: i64, available: i64) -> Value {
    json!({
        "metadata": { "name": name, "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": { "deployment.kubernetes.io/max-replicas": "13" } },
        "spec": { "replicas": size },
        "status": { "availableReplicas": available },
    })
}

fn bounds(desired: i64, surge: i64, unavailable: i64) -> Bounds {
    Bounds::of(&deployment(desired, &surge.into(), &unavailable.into()))
}

#[test]
fn surge_rounds_up_and_unavailable_down_but_never_both_to_nothing() {
    let of = |desired, surge: &str, unavailable: &str| {
        let bounds = Bounds::of(&deployment(desired, &surge.into(), &unavailable.into()));
        (bounds.surge, bounds.unavailable)
    };
    assert_eq!(of(3, "25%", "25%"), (1, 0));
    assert_eq!(of(10, "25%", "25%"), (3, 2));
    assert_eq!(of(1, "0%", "1%"), (0, 1));
    assert_eq!(of(2, "0%", "100%"), (0, 2));
}

#[test]
fn a_new_set_grows_into_the_room_there_is() {
    let bounds = bounds(10, 3, 2);
    assert_eq!(bounds.new_set(10, 0), 3);
    assert_eq!(bounds.new_set(13, 5), 5);
    assert_eq!(bounds.new_set(8, 8), 10);
}

#[test]
fn unhealthy_pods_go_first_then_what_is_beyond_need() {
    let bounds = bounds(10, 3, 2);
    let new = set("new", 5, 0);
    let old = [set("a", 8, 8)];
    assert_eq!(may_shrink(&bounds, &old, &new), 0);
    let old = [set("a", 4, 1), set("b", 6, 6)];
    assert_eq!(without_unhealthy(&old, 2), [(0, 2)]);
    assert_eq!(without_unhealthy(&old, 9), [(0, 1)]);
    let new = set("new", 3, 3);
    assert_eq!(without_surplus(&bounds, &old, &new), [(0, 2)]);
}

#[test]
fn scaling_in_the_middle_keeps_the_proportions() {
    let bounds = bounds(20, 3, 2);
    let sets = vec![set("old", 8, 8), set("new", 5, 0)];
    let sizes = proportional(&bounds, &deployment(20, &3.into(), &2.into()), sets);
    let sizes: Vec<(&str, i64)> = sizes
        .iter()
        .map(|(set, size)| (aplomb_apimachinery::object::name(set), *size))
        .collect();
    assert_eq!(sizes, [("old", 14), ("new", 9)]);
}
