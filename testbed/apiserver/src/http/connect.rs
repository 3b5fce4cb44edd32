//! Log, exec, attach and portforward of Pods, as far as a server without nodes can answer: what is
//! wrong with the request, and that no Pod runs anywhere.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::object;
use aplomb_apimachinery::status::{ApiError, GroupResource};
use http::{HeaderValue, Method};
use serde_json::Value;

use super::filters::Context;
use super::proxy;
use super::response::Reply;
use super::router::not_allowed;

/// Whether a request is one of these.
pub(super) fn concerns(context: &Context<'_>) -> bool {
    let info = &context.info;
    let streams = ["log", "exec", "attach", "portforward"];
    info.group.is_empty()
        && info.resource == "pods"
        && !info.namespace.is_empty()
        && info.parts.len() == 3
        && streams.contains(&info.subresource.as_str())
}

pub(super) fn answer(context: &Context<'_>) -> Result<Reply, ApiError> {
    let info = &context.info;
    let logs = info.subresource == "log";
    let served = match context.method {
        Method::GET => !info.legacy_watch,
        Method::POST => !logs,
        _ => false,
    };
    if !served {
        return Err(not_allowed());
    }
    if logs {
        check_log_options(context)?;
    }
    let server = &context.shared.server;
    let missing = || ApiError::not_found(&GroupResource::new("", "pods"), &info.name);
    let pod = server
        .get("", "pods", &info.namespace, &info.name)
        .ok_or_else(missing)?;
    if info.subresource != "portforward" {
        let container = context.query.first("container").unwrap_or_default();
        check_container(&pod, container)?;
    }
    let node = object::text(&pod["spec"], "nodeName");
    match (node.is_empty(), logs) {
        (true, true) => Ok(Reply::bytes(204, HeaderValue::from_static(""), "")),
        (true, false) => Err(ApiError::bad_request(format!(
            "pod {} does not have a host assigned",
            info.name
        ))),
        (false, _) => Err(unreachable(context, node)),
    }
}

/// Nothing in the box can be connected to.
fn unreachable(context: &Context<'_>, node: &str) -> ApiError {
    match proxy::kubelet(context, node) {
        Ok(address) => {
            let message = format!("error dialing backend: dial tcp {address}: connect: connection refused");
            ApiError::new(500, "", message)
        }
        Err(error) => error,
    }
}

fn check_log_options(context: &Context<'_>) -> Result<(), ApiError> {
    let options = [
        ("tailLines", 0, "must be greater than or equal to 0"),
        ("limitBytes", 1, "must be greater than 0"),
        ("sinceSeconds", 1, "must be greater than 0"),
    ];
    let wrong = |(name, least, why): &(&str, i64, &str)| {
        let given: i64 = context.query.first(name)?.parse().ok()?;
        (given < *least).then(|| FieldError::invalid(*name, given, *why))
    };
    let errors: Vec<FieldError> = options.iter().filter_map(wrong).collect();
    if errors.is_empty() {
        return Ok(());
    }
    let kind = GroupResource::new("", "PodLogOptions");
    Err(ApiError::invalid(&kind, &context.info.name, &errors))
}

/// A Pod with one container needs no name of it.
fn check_container(pod: &Value, wanted: &str) -> Result<(), ApiError> {
    let named = |list: &str| -> Vec<&str> {
        let containers = pod["spec"][list].as_array().into_iter().flatten();
        containers.map(|container| object::text(container, "name")).collect()
    };
    let all: Vec<&str> = ["initContainers", "containers", "ephemeralContainers"]
        .iter()
        .flat_map(|list| named(list))
        .collect();
    let name = object::name(pod);
    if !wanted.is_empty() && !all.contains(&wanted) {
        return Err(ApiError::bad_request(format!(
            "container {wanted} is not valid for pod {name}"
        )));
    }
    if wanted.is_empty() && named("containers").len() > 1 {
        let all = all.join(" ");
        return Err(ApiError::bad_request(format!(
            "a container name must be specified for pod {name}, choose one of: [{all}]"
        )));
    }
    Ok(())
}
