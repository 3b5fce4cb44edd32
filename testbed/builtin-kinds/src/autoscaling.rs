//! Horizontal pod autoscalers: both versions are one object, kept as `autoscaling/v2`.

pub(super) mod convert;
mod metrics;
mod print;
mod validate;

use serde_json::{Value, json};

use super::behavior::KindBehavior;
use super::value::{default_to, has, list};

/// What the processors of the Pods should be used to when nobody says.
const DEFAULT_UTILIZATION: i64 = 80;

/// How autoscalers behave in the stored version.
pub(super) const V2: KindBehavior = KindBehavior {
    default: default_v2,
    validate: validate::create,
    validate_update: validate::update,
    validates_updates: false,
    cells: print::cells,
    ..KindBehavior::PLAIN
};

/// How autoscalers behave in the old version: as the objects they are stored as.
pub(super) const V1: KindBehavior = KindBehavior {
    default: |scaler| {
        if let Some(spec) = scaler.get_mut("spec") {
            default_to(spec, "minReplicas", 1);
        }
        // A default of the stored form shows in this one, and its writer owns it.
        *scaler = convert::to_v1(convert::from_v1(scaler.take()));
    },
    validate: |scaler| validate::create(&convert::from_v1(scaler.clone())),
    validate_update: |new, old, part| {
        let [new, old] = [new, old].map(|scaler| convert::from_v1(scaler.clone()));
        validate::update(&new, &old, part)
    },
    validates_updates: false,
    cells: |scaler, now| print::cells(&convert::from_v1(scaler.clone()), now),
    ..KindBehavior::PLAIN
};

fn default_v2(scaler: &mut Value) {
    let Some(spec) = scaler.get_mut("spec") else {
        return;
    };
    default_to(spec, "minReplicas", 1);
    if list(spec, &["metrics"]).is_empty() {
        spec["metrics"] = json!([convert::cpu_metric(DEFAULT_UTILIZATION)]);
    }
    if has(spec, &["behavior"]) {
        let policy = |kind: &str, value: i64| json!({ "type": kind, "value": value, "periodSeconds": 15 });
        let up = json!([policy("Pods", 4), policy("Percent", 100)]);
        default_rules(&mut spec["behavior"], "scaleUp", up);
        default_to(&mut spec["behavior"]["scaleUp"], "stabilizationWindowSeconds", 0);
        default_rules(&mut spec["behavior"], "scaleDown", json!([policy("Percent", 100)]));
    }
}

fn default_rules(behavior: &mut Value, direction: &str, policies: Value) {
    default_to(behavior, direction, json!({}));
    let rules = &mut behavior[direction];
    default_to(rules, "selectPolicy", "Max");
    default_to(rules, "policies", policies);
}
