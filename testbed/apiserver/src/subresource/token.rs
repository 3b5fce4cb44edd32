//! `serviceaccounts/token`: a signed token for an account, for a while and for an audience.

use std::sync::Arc;

use aplomb_apimachinery::field::{FieldError, go_quote};
use aplomb_apimachinery::object;
use aplomb_apimachinery::status::{ApiError, GroupResource};
use serde_json::{Value, json};

use crate::auth::accounts::{self, Bound, ISSUER, Validity};
use crate::call::{Call, Outcome};
use crate::registry;
use crate::server::ApiServer;

/// No token is for less than this.
const MIN_SECONDS: i64 = 600;
/// What kubelets ask for; such tokens live on for a year, with warnings.
const EXTENDED_FROM: i64 = 3607;
const EXTENDED_TO: i64 = 60 * 60 * 24 * 365;

fn kind() -> GroupResource {
    GroupResource::new("authentication.k8s.io", "TokenRequest")
}

/// Carries out a request; `call.resource` is TokenRequest.
pub(super) fn request(server: &ApiServer, call: &Call) -> Result<Outcome, ApiError> {
    let (stated, warnings) = registry::posted(server, call)?;
    match answered(server, call, stated) {
        Ok(object) => Ok(Outcome::Object {
            code: 201,
            object: object.into(),
            warnings,
        }),
        Err(error) => Err(error.after_warnings(warnings)),
    }
}

/// The request with its token.
fn answered(server: &ApiServer, call: &Call, stated: Value) -> Result<Value, ApiError> {
    let mut request = registry::owned(server, call, stated, "token");
    let name = call.name.as_deref().unwrap_or_default();
    let namespace = call.namespace.as_deref().unwrap_or_default();
    let stated = object::meta_str(&request, "name");
    if !stated.is_empty() && stated != name {
        let why = "must match the service account name if specified";
        let error = FieldError::invalid("metadata.name", stated, why);
        return Err(ApiError::invalid(&kind(), name, &[error]));
    }
    let account = found(server, "serviceaccounts", namespace, name)?;
    let (stated, uid) = (object::uid(&request), object::uid(&account));
    if !stated.is_empty() && stated != uid {
        let why =
            format!("the UID in the token request ({stated}) does not match the UID of the service account ({uid})");
        return Err(ApiError::conflict(&kind(), name, &why));
    }
    let now = server.clock().now_seconds();
    for (member, value) in [("name", name), ("uid", uid), ("creationTimestamp", now.as_str())] {
        object::set_or_remove(&mut request, member, Some(value.into()));
    }
    let audiences = request["spec"]["audiences"].as_array();
    if audiences.is_none_or(Vec::is_empty) {
        request["spec"]["audiences"] = json!([ISSUER]);
    }
    check(&request)?;
    let token = signed(server, &request, &account)?;
    request["status"] = token;
    Ok(request)
}

fn found(server: &ApiServer, plural: &str, namespace: &str, name: &str) -> Result<Arc<Value>, ApiError> {
    server
        .get("", plural, namespace, name)
        .ok_or_else(|| ApiError::not_found(&GroupResource::new("", plural), name))
}

fn seconds(request: &Value) -> i64 {
    request["spec"]["expirationSeconds"].as_i64().unwrap_or(0)
}

fn check(request: &Value) -> Result<(), ApiError> {
    let seconds = seconds(request);
    let why = if seconds < MIN_SECONDS {
        "may not specify a duration less than 10 minutes"
    } else if seconds > 1 << 32 {
        "may not specify a duration larger than 2^32 seconds"
    } else {
        return Ok(());
    };
    let error = FieldError::invalid("spec.expirationSeconds", seconds, why);
    Err(ApiError::invalid(&kind(), "", &[error]))
}

/// The status of the request: its token, and until when it is good.
fn signed(server: &ApiServer, request: &Value, account: &Value) -> Result<Value, ApiError> {
    let objects = bound(server, request, account)?;
    let bound = Bound {
        pod: objects.pod.as_deref(),
        secret: objects.secret.as_deref(),
        node: objects.node.as_deref(),
    };
    let now = server.clock().now();
    let from = now.as_second();
    let audiences = &request["spec"]["audiences"];
    let extended = bound.pod.is_some()
        && seconds(request) == EXTENDED_FROM
        && audiences
            .as_array()
            .is_some_and(|all| all.iter().all(|one| one == ISSUER));
    let validity = Validity {
        from,
        until: from + if extended { EXTENDED_TO } else { seconds(request) },
        warn_after: extended.then_some(from + EXTENDED_FROM),
    };
    let id = server.clock().uuid();
    let claims = accounts::claims(account, &bound, audiences, validity, &id);
    let until = now
        .checked_add(jiff::SignedDuration::from_secs(seconds(request)))
        .unwrap_or(now);
    Ok(json!({
        "token": server.signer().sign(&claims),
        "expirationTimestamp": until.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    }))
}

#[derive(Default)]
struct Objects {
    pod: Option<Arc<Value>>,
    secret: Option<Arc<Value>>,
    node: Option<Arc<Value>>,
}

/// What the token is to be bound to.
fn bound(server: &ApiServer, request: &Value, account: &Value) -> Result<Objects, ApiError> {
    let reference = &request["spec"]["boundObjectRef"];
    let mut objects = Objects::default();
    if reference.is_null() {
        return Ok(objects);
    }
    let part = |member: &str| object::text(reference, member);
    let namespace = object::namespace(account);
    let core = !part("apiVersion").contains('/');
    let bound = match part("kind") {
        "Pod" if core => {
            let pod = found(server, "pods", namespace, part("name"))?;
            check_account(&pod, object::name(account))?;
            objects.node = node_of(server, &pod);
            objects.pod.insert(pod)
        }
        "Node" if core => objects.node.insert(found(server, "nodes", "", part("name"))?),
        "Secret" if core => {
            let secret = found(server, "secrets", namespace, part("name"))?;
            objects.secret.insert(secret)
        }
        other => return Err(unbindable(part("apiVersion"), other)),
    };
    let stated = part("uid");
    if !stated.is_empty() && stated != object::uid(bound) {
        let why = format!(
            "the UID in the bound object reference ({stated}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        let resource = GroupResource::new("", part("kind"));
        return Err(ApiError::conflict(&resource, part("name"), &why));
    }
    Ok(objects)
}

fn unbindable(api_version: &str, kind: &str) -> ApiError {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiError::bad_request(format!(
        "cannot bind token to object of type {group}/{version}, Kind={kind}"
    ))
}

fn check_account(pod: &Value, name: &str) -> Result<(), ApiError> {
    if object::text(&pod["spec"], "serviceAccountName") == name {
        return Ok(());
    }
    let name = go_quote(name);
    Err(ApiError::bad_request(format!(
        "cannot bind token for serviceaccount {name} to pod running with different serviceaccount name."
    )))
}

/// The node of a Pod; one that is not there is still named.
fn node_of(server: &ApiServer, pod: &Value) -> Option<Arc<Value>> {
    let name = object::text(&pod["spec"], "nodeName");
    if name.is_empty() {
        return None;
    }
    let named = || Arc::new(json!({ "metadata": { "name": name } }));
    Some(server.get("", "nodes", "", name).unwrap_or_else(named))
}
