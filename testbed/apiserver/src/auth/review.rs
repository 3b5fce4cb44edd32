//! Reviews: resources that are only ever created and answer a question about users and permissions.
//!
//! Nothing is stored. Fields are kept as they were sent; only `status` is the server's.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::status::{ApiError, GroupResource};
use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::accounts::{self, ISSUER};
use super::rbac::{self, Attributes};
use super::tokens::Tokens;
use crate::call::User;
use crate::server::ApiServer;

const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";

/// The kinds of review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ReviewKind {
    Token,
    SelfSubject,
    SubjectAccess,
    SelfSubjectAccess,
    LocalSubjectAccess,
    SelfSubjectRules,
}

/// Every kind with its group, kind and plural, ordered by group and plural.
pub const KINDS: [(ReviewKind, &str, &str, &str); 6] = [
    (
        ReviewKind::SelfSubject,
        AUTHENTICATION,
        "SelfSubjectReview",
        "selfsubjectreviews",
    ),
    (ReviewKind::Token, AUTHENTICATION, "TokenReview", "tokenreviews"),
    (
        ReviewKind::LocalSubjectAccess,
        AUTHORIZATION,
        "LocalSubjectAccessReview",
        "localsubjectaccessreviews",
    ),
    (
        ReviewKind::SelfSubjectAccess,
        AUTHORIZATION,
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
    ),
    (
        ReviewKind::SelfSubjectRules,
        AUTHORIZATION,
        "SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
    ),
    (
        ReviewKind::SubjectAccess,
        AUTHORIZATION,
        "SubjectAccessReview",
        "subjectaccessreviews",
    ),
];

impl ReviewKind {
    /// The review a path names.
    #[must_use]
    pub fn find(group: &str, version: &str, plural: &str) -> Option<Self> {
        let found = KINDS.iter().find(|(_, g, _, p)| *g == group && *p == plural);
        found.filter(|_| version == "v1").map(|(kind, ..)| *kind)
    }

    fn row(self) -> (&'static str, &'static str) {
        let found = KINDS.iter().find(|(kind, ..)| *kind == self);
        found
            .map(|(_, group, name, _)| (*group, *name))
            .expect("every kind is in the table")
    }

    /// The kind's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Whether it lives in a namespace.
    #[must_use]
    pub fn namespaced(self) -> bool {
        self == Self::LocalSubjectAccess
    }
}

/// Who asks, and whom the answer can be had from.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Request<'a> {
    pub server: &'a ApiServer,
    pub tokens: &'a Tokens,
    pub user: &'a User,
    pub namespace: &'a str,
    pub manager: String,
}

/// Answers a review.
///
/// # Errors
/// 400 for a body of another kind, 422 for a question that is not one.
pub fn create(kind: ReviewKind, json: &Bytes, request: &Request<'_>) -> Result<Value, ApiError> {
    let mut review = read(kind, json)?;
    let status = match kind {
        ReviewKind::Token => token_status(&review, request)?,
        ReviewKind::SelfSubject => json!({ "userInfo": user_info(request.user) }),
        ReviewKind::SelfSubjectRules => rules_status(&review, request)?,
        ReviewKind::SubjectAccess | ReviewKind::SelfSubjectAccess | ReviewKind::LocalSubjectAccess => {
            access_status(kind, &review, request)?
        }
    };
    if !review.get("metadata").is_some_and(Value::is_object) {
        review["metadata"] = json!({});
    }
    match kind {
        ReviewKind::SelfSubjectRules => review["spec"] = json!({}),
        ReviewKind::SelfSubject => {
            review["metadata"]["creationTimestamp"] = request.server.clock().now_seconds().into();
        }
        _ => review["metadata"]["managedFields"] = managed_fields(kind, &review, request),
    }
    review["status"] = status;
    Ok(review)
}

fn read(kind: ReviewKind, json: &Bytes) -> Result<Value, ApiError> {
    let (group, name) = kind.row();
    let unreadable = |why: String| {
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {name}): couldn't get \
             version/kind; json parse error: {why}"
        ))
    };
    let mut review = aplomb_apimachinery::json::parse(json).map_err(unreadable)?.value;
    if !review.is_object() {
        review = json!({});
    }
    let text = |member: &str| review.get(member).and_then(Value::as_str).unwrap_or_default();
    let (version, given) = (text("apiVersion").to_owned(), text("kind").to_owned());
    let expected = format!("{group}/v1");
    let stranger = (!given.is_empty() && given != name) || (!version.is_empty() && version != expected);
    if stranger {
        let short = version.rsplit('/').next().unwrap_or_default();
        return Err(ApiError::bad_request(format!(
            "{given} in version \"{short}\" cannot be handled as a {name}: no kind \"{given}\" is \
             registered for version \"{version}\" in scheme \"pkg/runtime/scheme.go:111\""
        )));
    }
    if let Some(spec) = review.get_mut("spec") {
        drop_empty(spec);
    }
    review["kind"] = name.into();
    review["apiVersion"] = expected.into();
    Ok(review)
}

/// Empty members are none: the server's types leave them out.
fn drop_empty(value: &mut Value) {
    let Some(members) = value.as_object_mut() else {
        return;
    };
    members.retain(|_, member| match member {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    });
    members.values_mut().for_each(drop_empty);
}

fn user_info(user: &User) -> Value {
    let mut info = Map::new();
    info.insert("username".into(), user.name.as_str().into());
    if !user.uid.is_empty() {
        info.insert("uid".into(), user.uid.as_str().into());
    }
    if !user.groups.is_empty() {
        info.insert("groups".into(), user.groups.clone().into());
    }
    if !user.extra.is_empty() {
        info.insert("extra".into(), json!(user.extra));
    }
    Value::Object(info)
}

fn token_status(review: &Value, request: &Request<'_>) -> Result<Value, ApiError> {
    let token = review
        .pointer("/spec/token")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if token.is_empty() {
        return Err(ApiError::bad_request(
            "token is required for TokenReview in authentication",
        ));
    }
    let audiences = review.pointer("/spec/audiences").and_then(Value::as_array);
    let stated: Vec<&str> = audiences.into_iter().flatten().filter_map(Value::as_str).collect();
    let wanted = if stated.is_empty() { vec![ISSUER] } else { stated };
    let known = |user: &User, audiences: &[String]| json!({ "authenticated": true, "user": user_info(user), "audiences": audiences });
    let meant = wanted.contains(&ISSUER);
    if let Some(user) = request.tokens.user(token).filter(|_| meant) {
        return Ok(known(&user, &[ISSUER.to_owned()]));
    }
    Ok(match accounts::account(request.server, token, &wanted) {
        Some(Ok((user, audiences))) => known(&user, &audiences),
        Some(Err(why)) => {
            json!({ "user": {}, "error": format!("[invalid bearer token, {why}]") })
        }
        None => json!({ "user": {}, "error": "invalid bearer token" }),
    })
}

fn access_status(kind: ReviewKind, review: &Value, request: &Request<'_>) -> Result<Value, ApiError> {
    let spec = review.get("spec").cloned().unwrap_or_else(|| json!({}));
    let mut errors = spec_errors(kind, &spec, request);
    errors.extend(metadata_error(kind, review, request));
    if !errors.is_empty() {
        return Err(ApiError::invalid(&GroupResource::new(AUTHORIZATION, ""), "", &errors));
    }
    let user = if kind == ReviewKind::SelfSubjectAccess {
        request.user.clone()
    } else {
        named_user(&spec)
    };
    let decision = rbac::authorize(request.server, &user, &attributes(&spec));
    let mut status = json!({ "allowed": decision.allowed });
    if !decision.reason.is_empty() {
        status["reason"] = decision.reason.into();
    }
    Ok(status)
}

fn spec_errors(kind: ReviewKind, spec: &Value, request: &Request<'_>) -> Vec<FieldError> {
    let member = |name: &str| spec.get(name).filter(|value| value.is_object());
    let (resource, path) = (member("resourceAttributes"), member("nonResourceAttributes"));
    if let (ReviewKind::LocalSubjectAccess, Some(path)) = (kind, path) {
        return vec![path_error(path, "disallowed on this kind of request")];
    }
    let mut errors = Vec::new();
    if let (Some(_), Some(path)) = (resource, path) {
        let why = "cannot be specified in combination with resourceAttributes";
        errors.push(path_error(path, why));
    }
    if resource.is_none() && path.is_none() {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        let field = "spec.resourceAttributes";
        errors.push(FieldError::invalid(field, Value::Null, why));
    }
    if kind != ReviewKind::SelfSubjectAccess && spec.get("user").is_none() && spec.get("groups").is_none() {
        let why = "at least one of user or group must be specified";
        errors.push(FieldError::invalid("spec.user", "", why));
    }
    if let (ReviewKind::LocalSubjectAccess, Some(resource)) = (kind, resource) {
        let namespace = resource.get("namespace").and_then(Value::as_str).unwrap_or_default();
        if namespace != request.namespace {
            let field = "spec.resourceAttributes.namespace";
            let why = "must match metadata.namespace";
            errors.push(FieldError::invalid(field, namespace, why));
        }
    }
    errors
}

/// The server shows this value as its own type prints it, without the names of JSON.
fn path_error(path: &Value, why: &str) -> FieldError {
    let text = |name: &str| path.get(name).cloned().unwrap_or_else(|| "".into());
    let shown = json!({ "Path": text("path"), "Verb": text("verb") });
    FieldError::invalid("spec.nonResourceAttributes", shown, why)
}

/// Access reviews have no names or labels; the refusal shows what they had.
fn metadata_error(kind: ReviewKind, review: &Value, request: &Request<'_>) -> Option<FieldError> {
    let metadata = review.get("metadata").and_then(Value::as_object)?;
    let namespace = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
    let named_by_path = kind.namespaced() && namespace == request.namespace;
    let extra = |key: &str| key != "managedFields" && !(key == "namespace" && named_by_path);
    if !metadata.keys().any(|key| extra(key)) {
        return None;
    }
    let mut shown = metadata.clone();
    shown.insert("managedFields".into(), managed_fields(kind, review, request));
    Some(FieldError::invalid("metadata", Value::Object(shown), "must be empty"))
}

fn named_user(spec: &Value) -> User {
    let text = |name: &str| spec.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let groups = spec.get("groups").and_then(Value::as_array);
    let groups = groups
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    User {
        name: text("user"),
        uid: text("uid"),
        groups,
        ..User::default()
    }
}

fn attributes(spec: &Value) -> Attributes {
    let (is_resource, from) = match spec.get("resourceAttributes") {
        Some(from) => (true, from),
        None => (false, spec.get("nonResourceAttributes").unwrap_or(&Value::Null)),
    };
    let text = |name: &str| from.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    Attributes {
        is_resource,
        verb: text("verb"),
        group: text("group"),
        resource: text("resource"),
        subresource: text("subresource"),
        namespace: text("namespace"),
        name: text("name"),
        path: text("path"),
    }
}

fn rules_status(review: &Value, request: &Request<'_>) -> Result<Value, ApiError> {
    let namespace = review
        .pointer("/spec/namespace")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    for rule in rbac::rules_for(request.server, request.user, namespace) {
        if rule.urls.is_empty() {
            let mut entry = json!({
                "verbs": rule.verbs, "apiGroups": rule.groups, "resources": rule.resources,
            });
            if !rule.names.is_empty() {
                entry["resourceNames"] = rule.names.into();
            }
            resources.push(entry);
        } else {
            paths.push(json!({ "verbs": rule.verbs, "nonResourceURLs": rule.urls }));
        }
    }
    Ok(json!({ "resourceRules": resources, "nonResourceRules": paths, "incomplete": false }))
}

fn managed_fields(kind: ReviewKind, review: &Value, request: &Request<'_>) -> Value {
    let spec = review.get("spec").map(owned).unwrap_or_else(|| json!({}));
    json!([{
        "manager": request.manager,
        "operation": "Update",
        "apiVersion": format!("{}/v1", kind.row().0),
        "time": request.server.clock().now_seconds(),
        "fieldsType": "FieldsV1",
        "fieldsV1": { "f:spec": spec },
    }])
}

/// The field set of a value whose lists are atomic.
fn owned(value: &Value) -> Value {
    let Some(members) = value.as_object() else {
        return json!({});
    };
    let fields = members.iter().map(|(key, member)| {
        let mut set = owned(member);
        if member.is_object() {
            set["."] = json!({});
        }
        (format!("f:{key}"), set)
    });
    Value::Object(fields.collect())
}
