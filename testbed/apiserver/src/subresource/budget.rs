//! What a PodDisruptionBudget allows, and what it is after one more disruption. Pure.

use aplomb_apimachinery::object;
use aplomb_apimachinery::status::{ApiError, GroupResource};
use serde_json::{Value, json};

use super::condition;

/// More unconfirmed disruptions than this are not taken.
const MAX_DISRUPTED_PODS: usize = 2000;

fn number(budget: &Value, member: &str) -> i64 {
    budget["status"][member].as_i64().unwrap_or(0)
}

/// Whether Pods that are not ready may go without counting.
pub(super) fn spares_unready(budget: &Value) -> bool {
    if budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow" {
        return true;
    }
    let (healthy, desired) = (number(budget, "currentHealthy"), number(budget, "desiredHealthy"));
    healthy >= desired && desired > 0
}

/// The budget with one disruption less to allow, and the Pod noted.
///
/// # Errors
/// 429 when it allows none.
pub(super) fn spend(budget: &Value, pod: &str, now: &str) -> Result<Value, ApiError> {
    let name = object::name(budget);
    let forbidden = |why: &str| ApiError::forbidden(&GroupResource::new("policy", "poddisruptionbudget"), name, why);
    if number(budget, "observedGeneration") < object::generation(budget) {
        return Err(unsettled(name));
    }
    let allowed = number(budget, "disruptionsAllowed");
    if allowed < 0 {
        return Err(forbidden("pdb disruptions allowed is negative"));
    }
    let disrupted = budget["status"]["disruptedPods"].as_object();
    if disrupted.is_some_and(|pods| pods.len() > MAX_DISRUPTED_PODS) {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(forbidden(why));
    }
    if allowed == 0 {
        return Err(refused(None, &why_none(budget)));
    }
    let mut spent = budget.clone();
    spent["status"]["disruptionsAllowed"] = (allowed - 1).into();
    if allowed == 1 {
        set_disallowed(&mut spent, now);
    }
    spent["status"]["disruptedPods"][pod] = now.into();
    Ok(spent)
}

/// What a budget allows is not known yet.
pub(super) fn unsettled(name: &str) -> ApiError {
    let why = format!("The disruption budget {name} is still being processed by the server.");
    refused(Some(10), &why)
}

fn refused(retry_after: Option<u32>, why: &str) -> ApiError {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let mut error = match retry_after {
        Some(seconds) => ApiError::too_many_requests(message, seconds),
        None => ApiError::new(429, "TooManyRequests", message),
    };
    error = error.with_detail("causes", json!([{ "reason": "DisruptionBudget", "message": why }]));
    error
}

fn why_none(budget: &Value) -> String {
    let name = object::name(budget);
    let conditions = budget["status"]["conditions"].as_array();
    let disallowed = conditions.into_iter().flatten().find(|condition| {
        condition["type"] == "DisruptionAllowed"
            && condition["status"] == "False"
            && !object::text(condition, "message").is_empty()
    });
    let part = |member: &str| disallowed.map_or("", |condition| object::text(condition, member));
    let (healthy, desired) = (number(budget, "currentHealthy"), number(budget, "desiredHealthy"));
    match disallowed {
        Some(_) if part("reason") == "SyncFailed" => format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {}",
            part("message")
        ),
        _ if healthy <= desired => {
            format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
        }
        Some(_) => format!(
            "The disruption budget {name} does not allow evicting pods currently ({}): {}",
            part("reason"),
            part("message")
        ),
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    }
}

fn set_disallowed(budget: &mut Value, now: &str) {
    let generation = number(budget, "observedGeneration");
    let allowed = condition(budget, "DisruptionAllowed");
    let since = match allowed["status"] == "False" {
        true => allowed["lastTransitionTime"].clone(),
        false => now.into(),
    };
    *allowed = json!({
        "type": "DisruptionAllowed",
        "status": "False",
        "observedGeneration": generation,
        "lastTransitionTime": since,
        "reason": "InsufficientPods",
        "message": "",
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(allowed: i64) -> Value {
        json!({
            "metadata": { "name": "b", "generation": 1 },
            "status": { "observedGeneration": 1, "disruptionsAllowed": allowed },
        })
    }

    #[test]
    fn a_disruption_is_counted_and_the_pod_noted() {
        let spent = spend(&budget(2), "p", "now").expect("one is allowed");
        assert_eq!(spent["status"]["disruptionsAllowed"], 1);
        assert_eq!(spent["status"]["disruptedPods"], json!({ "p": "now" }));
        assert!(spent["status"]["conditions"].is_null());
    }

    #[test]
    fn the_last_disruption_is_followed_by_a_refusal() {
        let spent = spend(&budget(1), "p", "now").expect("one is allowed");
        assert_eq!(spent["status"]["conditions"][0]["reason"], "InsufficientPods");
        let refused = spend(&spent, "q", "now").expect_err("none is allowed");
        assert_eq!(refused.code, 429);
    }
}
