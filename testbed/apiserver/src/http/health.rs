//! `/healthz`, `/livez` and `/readyz`, with the checks of the real server, so that what asks for one
//! of them by name finds it.

use aplomb_apimachinery::status::ApiError;
use http::header::HeaderValue;

use super::filters::Context;
use super::response::Reply;
use super::router::no_such_path;

/// What the server does at its start and reports the health of, in its order. The box has done all
/// of it once it answers.
const HOOKS: [&str; 29] = [
    "start-apiserver-admission-initializer",
    "generic-apiserver-start-informers",
    "priority-and-fairness-config-consumer",
    "priority-and-fairness-filter",
    "storage-object-count-tracker-hook",
    "start-apiextensions-informers",
    "start-apiextensions-controllers",
    "crd-informer-synced",
    "start-system-namespaces-controller",
    "peer-endpoint-reconciler-controller",
    "start-cluster-authentication-info-controller",
    "start-kube-apiserver-identity-lease-controller",
    "start-kube-apiserver-identity-lease-garbage-collector",
    "storage-readiness",
    "start-legacy-token-tracking-controller",
    "start-service-ip-repair-controllers",
    "rbac/bootstrap-roles",
    "scheduling/bootstrap-system-priority-classes",
    "priority-and-fairness-config-producer",
    "bootstrap-controller",
    "start-kubernetes-service-cidr-controller",
    "start-kube-aggregator-informers",
    "apiservice-status-local-available-controller",
    "apiservice-status-remote-available-controller",
    "apiservice-registration-controller",
    "apiservice-discovery-controller",
    "kube-apiserver-autoregistration",
    "apiservice-openapi-controller",
    "apiservice-openapiv3-controller",
];

/// Answers an endpoint, or one check of it.
pub(super) fn answer(context: &Context<'_>, parts: &[&str]) -> Result<Reply, ApiError> {
    let checks = checks(parts[0]);
    if parts.len() > 1 {
        let known = checks.contains(&parts[1..].join("/"));
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        return if known {
            Ok(Reply::bytes(200, plain, "ok"))
        } else {
            Err(no_such_path())
        };
    }
    if context.query.first("verbose").is_none() {
        return Ok(Reply::text(200, "ok"));
    }
    let excluded: Vec<&str> = context.query.all("exclude").collect();
    let mut text = String::new();
    for check in &checks {
        let note = if excluded.contains(&check.as_str()) {
            "excluded: ok"
        } else {
            "ok"
        };
        text.push_str(&format!("[+]{check} {note}\n"));
    }
    let known = |name: &&str| checks.iter().any(|check| check == name);
    let unknown: Vec<&str> = excluded.into_iter().filter(|name| !known(name)).collect();
    if !unknown.is_empty() {
        let quoted: Vec<String> = unknown
            .iter()
            .map(|name| aplomb_apimachinery::field::go_quote(name))
            .collect();
        text.push_str(&format!(
            "warn: some health checks cannot be excluded: no matches for {}\n",
            quoted.join(",")
        ));
    }
    text.push_str(&format!("{} check passed\n", parts[0]));
    Ok(Reply::text(200, text))
}

/// The checks of an endpoint, in the server's order.
pub(super) fn checks(endpoint: &str) -> Vec<String> {
    let ready = endpoint == "readyz";
    let first: &[&str] = if ready {
        &["ping", "log", "etcd", "etcd-readiness", "informer-sync"]
    } else {
        &["ping", "log", "loopback-serving-certificate", "etcd"]
    };
    let mut checks: Vec<String> = first.iter().map(|&check| check.to_owned()).collect();
    for hook in HOOKS {
        checks.push(format!("poststarthook/{hook}"));
        if hook == "kube-apiserver-autoregistration" {
            checks.push("autoregister-completion".to_owned());
        }
    }
    if ready {
        checks.push("shutdown".to_owned());
    }
    checks
}
