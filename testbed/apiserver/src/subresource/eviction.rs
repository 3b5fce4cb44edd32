//! `pods/eviction`: a deletion that PodDisruptionBudgets have a say in.

use std::sync::Arc;

use aplomb_apimachinery::labels::LabelSelector;
use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::Resource;
use aplomb_apimachinery::status::{ApiError, GroupResource};
use aplomb_builtin_kinds as kinds;
use serde_json::{Value, json};

use super::{budget, condition, done};
use crate::call::{Call, DeleteOptions, Outcome, Verb};
use crate::registry;
use crate::server::{ApiServer, key_of};

/// What is decided about a Pod.
enum Verdict {
    /// It may go.
    Go,
    /// It may go while it stays as unready as it is; the name of the budget that says so.
    GoAsItIs(String),
    /// Two budgets claim it.
    Unsupported,
}

/// Carries out an eviction; `call.resource` is Eviction, `pods` what it is about.
pub(super) async fn evict(server: &ApiServer, call: &Call, pods: &Arc<Resource>) -> Result<Outcome, ApiError> {
    let (eviction, warnings) = registry::posted(server, &accepting_beta(call))?;
    match carry_out(server, call, pods, &eviction).await {
        Ok(()) => Ok(done(warnings)),
        Err(error) => Err(error.after_warnings(warnings)),
    }
}

async fn carry_out(server: &ApiServer, call: &Call, pods: &Arc<Resource>, eviction: &Value) -> Result<(), ApiError> {
    let name = call.name.as_deref().unwrap_or_default();
    if object::name(eviction) != name {
        let why = "name in URL does not match name in Eviction object";
        return Err(ApiError::bad_request(why));
    }
    let dry_run = dry_run(call, eviction)?;
    let mut options = delete_options(eviction);
    let key = key_of(&pods.storage, call.namespace.as_deref(), name);
    let missing = || ApiError::not_found(&pods.group_resource(), name);
    let pod = server.store().get(&key).ok_or_else(missing)?;
    if goes_anyway(&pod) {
        return delete(server, call, pods, options, dry_run).await;
    }
    match judge(server, &pod, dry_run).await? {
        Verdict::Go => delete(server, call, pods, options, dry_run).await,
        Verdict::GoAsItIs(budget) => {
            let version = Some(object::resource_version(&pod).to_owned());
            let unconditional = options.resource_version.is_none();
            options.resource_version = version;
            let gone = delete(server, call, pods, options, dry_run).await;
            // Whatever the conflict is about, the server takes it for the Pod having become ready.
            gone.map_err(|error| match error.reason {
                "Conflict" if unconditional => budget::unsettled(&budget),
                _ => error,
            })
        }
        Verdict::Unsupported => Err(two_budgets()),
    }
}

/// The beta form of an Eviction is read as the other.
fn accepting_beta(call: &Call) -> Call {
    let mut call = call.clone();
    if let Ok(mut body) = serde_json::from_slice::<Value>(&call.body)
        && body["apiVersion"] == "policy/v1beta1"
    {
        body["apiVersion"] = "policy/v1".into();
        call.body = body.to_string().into();
    }
    call
}

/// The query and the body may both ask for a dry run, but not for different ones.
fn dry_run(call: &Call, eviction: &Value) -> Result<bool, ApiError> {
    let stated = eviction["deleteOptions"]["dryRun"].as_array();
    let stated = stated.filter(|stated| !stated.is_empty());
    match (call.options.dry_run, stated) {
        (asked, None) => Ok(asked),
        (false, Some(_)) => Ok(true),
        (true, Some(stated)) if *stated == [json!("All")] => Ok(true),
        (true, Some(stated)) => {
            let stated: Vec<&str> = stated.iter().filter_map(Value::as_str).collect();
            let stated = stated.join(" ");
            let why = format!("Non-matching dry-run options in request and content: [All] and [{stated}]");
            Err(ApiError::new(500, "", why))
        }
    }
}

fn delete_options(eviction: &Value) -> DeleteOptions {
    let given = &eviction["deleteOptions"];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    DeleteOptions {
        grace_period_seconds: given["gracePeriodSeconds"].as_i64(),
        propagation_policy: text(&given["propagationPolicy"]),
        orphan_dependents: given["orphanDependents"].as_bool(),
        uid: text(&given["preconditions"]["uid"]),
        resource_version: text(&given["preconditions"]["resourceVersion"]),
    }
}

/// Pods that serve nobody, or are going already, are not for a budget to keep.
fn goes_anyway(pod: &Value) -> bool {
    let phase = object::text(&pod["status"], "phase");
    matches!(phase, "Succeeded" | "Failed" | "Pending") || object::is_terminating(pod)
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

async fn judge(server: &ApiServer, pod: &Value, dry_run: bool) -> Result<Verdict, ApiError> {
    loop {
        let budgets: Vec<_> = server
            .list("policy", "poddisruptionbudgets")
            .into_iter()
            .filter(|budget| covers(budget, pod))
            .collect();
        let budget = match budgets.as_slice() {
            [] => return Ok(Verdict::Go),
            [budget] => budget,
            _ => return Ok(Verdict::Unsupported),
        };
        if !is_ready(pod) && budget::spares_unready(budget) {
            return Ok(Verdict::GoAsItIs(object::name(budget).to_owned()));
        }
        let spent = budget::spend(budget, object::name(pod), &server.clock().now_seconds())?;
        if dry_run {
            return Ok(Verdict::Go);
        }
        match write(server, &spent).await {
            Ok(()) => return Ok(Verdict::Go),
            Err(error) if error.reason == "Conflict" => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether a budget is about a Pod.
fn covers(budget: &Value, pod: &Value) -> bool {
    let selector = &budget["spec"]["selector"];
    if object::namespace(budget) != object::namespace(pod) || selector.is_null() {
        return false;
    }
    LabelSelector::parse(&kinds::label_selector_text(selector)).is_ok_and(|selector| selector.matches(pod))
}

async fn write(server: &ApiServer, budget: &Value) -> Result<(), ApiError> {
    let resource = server
        .any_version("policy", "poddisruptionbudgets")
        .ok_or_else(|| ApiError::internal("PodDisruptionBudgets are not served"))?;
    let mut call = Call::new(Verb::Update, resource)
        .namespace(object::namespace(budget))
        .name(object::name(budget))
        .status()
        .body(budget);
    call.user_agent = "kube-apiserver".into();
    server.call(call).await.map(drop)
}

fn two_budgets() -> ApiError {
    let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    ApiError::new(500, "", message)
}

async fn delete(
    server: &ApiServer,
    call: &Call,
    pods: &Arc<Resource>,
    mut options: DeleteOptions,
    dry_run: bool,
) -> Result<(), ApiError> {
    let mut whole = Call {
        verb: Verb::Delete,
        resource: pods.clone(),
        ..call.clone()
    };
    if !dry_run {
        let version = mark(server, &whole, &options)?;
        // The mark itself moved the version.
        options.resource_version = options.resource_version.map(|_| version);
    }
    whole.options.dry_run = dry_run;
    whole.options.delete = options;
    server.call(whole).await.map(drop)
}

/// Says on the Pod why it goes, and returns its version then.
fn mark(server: &ApiServer, call: &Call, options: &DeleteOptions) -> Result<String, ApiError> {
    let name = call.name.as_deref().unwrap_or_default();
    let resource = &call.resource;
    let key = key_of(&resource.storage, call.namespace.as_deref(), name);
    loop {
        let missing = || ApiError::not_found(&resource.group_resource(), name);
        let stored = server.store().get(&key).ok_or_else(missing)?;
        check_preconditions(&stored, options)?;
        let mut pod = Value::clone(&stored);
        let now = server.clock().now_seconds();
        let target = condition(&mut pod, "DisruptionTarget");
        let since = match target["status"] == "True" {
            true => target["lastTransitionTime"].clone(),
            false => now.into(),
        };
        *target = json!({
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": null,
            "lastTransitionTime": since,
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        });
        if let Some(written) = registry::put(server, call, &key, &stored, pod)? {
            return Ok(object::resource_version(&written).to_owned());
        }
    }
}

fn check_preconditions(pod: &Value, options: &DeleteOptions) -> Result<(), ApiError> {
    let resource = GroupResource::new("", "Pod");
    let refuse = |why: String| ApiError::conflict(&resource, object::name(pod), &why);
    let (uid, version) = (object::uid(pod), object::resource_version(pod));
    let other = |stated: &&String, found: &str| !stated.is_empty() && *stated != found;
    if let Some(stated) = options.uid.as_ref().filter(|stated| other(stated, uid)) {
        return Err(refuse(format!(
            "the UID in the precondition ({stated}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
        )));
    }
    let stated = options.resource_version.as_ref();
    if let Some(stated) = stated.filter(|stated| other(stated, version)) {
        return Err(refuse(format!(
            "the ResourceVersion in the precondition ({stated}) does not match the ResourceVersion in record ({version}). The object might have been modified"
        )));
    }
    Ok(())
}
