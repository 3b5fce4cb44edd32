//! How many pods each replica set of a deployment should have, in every phase of a rollout.
//!
//! Arithmetic only: numbers in, numbers out, as Kubernetes' deployment controller does them.

use aplomb_apimachinery::object;
use serde_json::Value;

use super::revision;

/// What is asked for, and how far a rollout may stray from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) desired: i64,
    pub(super) surge: i64,
    pub(super) unavailable: i64,
    pub(super) rolling: bool,
}

impl Bounds {
    pub(super) fn of(deployment: &Value) -> Self {
        let desired = replicas(deployment);
        let strategy = deployment.pointer("/spec/strategy").unwrap_or(&Value::Null);
        let rolling = strategy["type"] == "RollingUpdate";
        if !rolling {
            return Self {
                desired,
                surge: 0,
                unavailable: 0,
                rolling,
            };
        }
        let asked = |member: &str| strategy.pointer(&format!("/rollingUpdate/{member}"));
        let surge = scaled(asked("maxSurge"), desired, true);
        let mut unavailable = scaled(asked("maxUnavailable"), desired, false);
        if surge == 0 && unavailable == 0 {
            // Both may round to nothing, and then nothing could ever move.
            unavailable = 1;
        }
        Self {
            desired,
            surge,
            unavailable: unavailable.min(desired),
            rolling,
        }
    }

    fn least_available(&self) -> i64 {
        self.desired - self.unavailable
    }

    /// The size of the new replica set that has `current` now, `total` being that of all.
    pub(super) fn new_set(&self, total: i64, current: i64) -> i64 {
        if !self.rolling {
            return self.desired;
        }
        let room = self.desired + self.surge - total;
        if room <= 0 {
            return current;
        }
        current + room.min(self.desired - current)
    }
}

fn scaled(value: Option<&Value>, total: i64, up: bool) -> i64 {
    match value {
        Some(Value::Number(number)) => number.as_i64().unwrap_or(0),
        Some(Value::String(text)) => {
            let percent = text.strip_suffix('%').and_then(|it| it.parse::<i64>().ok());
            let hundredths = percent.unwrap_or(0).saturating_mul(total);
            if up {
                hundredths.div_euclid(100) + i64::from(hundredths.rem_euclid(100) != 0)
            } else {
                hundredths.div_euclid(100)
            }
        }
        _ => 0,
    }
}

/// What is asked of a deployment or a replica set.
pub(super) fn replicas(object: &Value) -> i64 {
    let replicas = object.pointer("/spec/replicas").and_then(Value::as_i64);
    replicas.unwrap_or(0)
}

/// A number of the status.
pub(super) fn counted(object: &Value, member: &str) -> i64 {
    let status = object.get("status").and_then(|it| it.get(member));
    status.and_then(Value::as_i64).unwrap_or(0)
}

/// What all of them are asked for.
pub(super) fn total<'a>(sets: impl Iterator<Item = &'a Value>) -> i64 {
    sets.map(replicas).sum()
}

/// The order in which old replica sets shrink: the oldest first.
pub(super) fn by_age(a: &Value, b: &Value) -> std::cmp::Ordering {
    let created = |set: &Value| object::meta_str(set, "creationTimestamp").to_owned();
    let order = created(a).cmp(&created(b));
    order.then_with(|| object::name(a).cmp(object::name(b)))
}

/// How many pods of old replica sets may go now.
pub(super) fn may_shrink(bounds: &Bounds, old: &[Value], new: &Value) -> i64 {
    let total = total(old.iter()) + replicas(new);
    let missing = replicas(new) - counted(new, "availableReplicas");
    total - bounds.least_available() - missing
}

/// New sizes of old replica sets, by index, that lose pods nobody can use: at most `most` of them.
pub(super) fn without_unhealthy(old: &[Value], most: i64) -> Vec<(usize, i64)> {
    let mut left = most;
    let mut sizes = Vec::new();
    for (index, set) in old.iter().enumerate() {
        let unhealthy = replicas(set) - counted(set, "availableReplicas");
        if left <= 0 {
            break;
        }
        if replicas(set) == 0 || unhealthy == 0 {
            continue;
        }
        let fewer = left.min(unhealthy);
        sizes.push((index, replicas(set) - fewer));
        left -= fewer;
    }
    sizes
}

/// New sizes of old replica sets, by index, once what is available beyond need is gone.
pub(super) fn without_surplus(bounds: &Bounds, old: &[Value], new: &Value) -> Vec<(usize, i64)> {
    let all = old.iter().chain([new]);
    let available: i64 = all.map(|set| counted(set, "availableReplicas")).sum();
    let mut left = available - bounds.least_available();
    let mut sizes = Vec::new();
    for (index, set) in old.iter().enumerate() {
        if left <= 0 {
            break;
        }
        if replicas(set) == 0 {
            continue;
        }
        let fewer = left.min(replicas(set));
        sizes.push((index, replicas(set) - fewer));
        left -= fewer;
    }
    sizes
}

/// Sizes of active replica sets after a deployment was scaled in the middle of a rollout: each
/// keeps its share, the largest takes what rounding leaves. Sets come back in the order in which
/// they are to be resized.
pub(super) fn proportional(bounds: &Bounds, deployment: &Value, mut sets: Vec<Value>) -> Vec<(Value, i64)> {
    let allowed = if bounds.desired > 0 {
        bounds.desired + bounds.surge
    } else {
        0
    };
    let to_add = allowed - total(sets.iter());
    sets.sort_by(|a, b| {
        let larger = replicas(b).cmp(&replicas(a));
        larger.then_with(|| if to_add > 0 { by_age(b, a) } else { by_age(a, b) })
    });
    let mut added = 0;
    let mut sizes: Vec<i64> = Vec::new();
    for set in &sets {
        let share = share(bounds, deployment, set, to_add, added);
        added += share;
        sizes.push(replicas(set) + share);
    }
    if let Some(largest) = sizes.first_mut() {
        *largest = (*largest + to_add - added).max(0);
    }
    sets.into_iter().zip(sizes).collect()
}

fn share(bounds: &Bounds, deployment: &Value, set: &Value, to_add: i64, added: i64) -> i64 {
    let left = to_add - added;
    if replicas(set) == 0 || to_add == 0 || left == 0 {
        return 0;
    }
    let fraction = fraction(bounds, deployment, set);
    if to_add > 0 {
        fraction.min(left)
    } else {
        fraction.max(left)
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)] // counts of pods
fn fraction(bounds: &Bounds, deployment: &Value, set: &Value) -> i64 {
    let size = replicas(set);
    if bounds.desired == 0 {
        return -size;
    }
    let before = revision::count(set, revision::MAX_REPLICAS).filter(|count| *count != 0);
    let before = before.unwrap_or_else(|| counted(deployment, "replicas"));
    if before == 0 {
        return 0;
    }
    let after = (size * (bounds.desired + bounds.surge)) as f64 / before as f64;
    after.round() as i64 - size
}

#[cfg(test)]
mod tests {
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
}
