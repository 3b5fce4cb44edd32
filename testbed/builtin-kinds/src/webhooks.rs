//! Webhook configurations: checked, stored and printed. No webhook is called.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::validation;
use serde_json::{Value, json};

use super::admission::rule;
use super::behavior::KindBehavior;
use super::print::{age, name};
use super::value::{at, default_to, has, items_mut, list, number, text};
use super::{check, require, shown};

/// How validating webhook configurations behave.
pub(super) const VALIDATING: KindBehavior = KindBehavior {
    default: |configuration| items_mut(configuration, &["webhooks"]).for_each(default_webhook),
    validate,
    unconditional: false,
    generation: &[&["webhooks"]],
    cells: |configuration, now| {
        let webhooks = list(configuration, &["webhooks"]).len();
        vec![name(configuration), webhooks.into(), age(configuration, now)]
    },
    ..KindBehavior::PLAIN
};

/// How mutating webhook configurations behave.
pub(super) const MUTATING: KindBehavior = KindBehavior {
    default: |configuration| {
        for webhook in items_mut(configuration, &["webhooks"]) {
            default_webhook(webhook);
            default_to(webhook, "reinvocationPolicy", "Never");
        }
    },
    validate,
    unconditional: false,
    generation: &[&["webhooks"]],
    cells: VALIDATING.cells,
    ..KindBehavior::PLAIN
};

fn default_webhook(webhook: &mut Value) {
    default_to(webhook, "failurePolicy", "Fail");
    default_to(webhook, "matchPolicy", "Equivalent");
    default_to(webhook, "namespaceSelector", json!({}));
    default_to(webhook, "objectSelector", json!({}));
    default_to(webhook, "timeoutSeconds", 10);
    for rule in items_mut(webhook, &["rules"]) {
        default_to(rule, "scope", "*");
    }
    if let Some(service) = webhook.pointer_mut("/clientConfig/service") {
        default_to(service, "port", 443);
    }
}

fn validate(configuration: &Value) -> Vec<FieldError> {
    let webhooks = list(configuration, &["webhooks"]);
    let mut errors = Vec::new();
    for (index, webhook) in webhooks.iter().enumerate() {
        let field = format!("webhooks[{index}]");
        errors.extend(validate_webhook(webhook, &field));
        errors.extend(review_versions(webhook, &field));
        let own = text(webhook, &["name"]);
        let known = |earlier: &Value| text(earlier, &["name"]) == own;
        if !own.is_empty() && webhooks[..index].iter().any(known) {
            errors.push(FieldError::duplicate(format!("{field}.name"), own));
        }
    }
    errors
}

const POLICIES: [(&str, [&str; 2]); 2] = [
    ("failurePolicy", ["Fail", "Ignore"]),
    ("matchPolicy", ["Equivalent", "Exact"]),
];

fn validate_webhook(webhook: &Value, field: &str) -> Vec<FieldError> {
    let own = text(webhook, &["name"]);
    let mut errors = validation::three_segments(own, &format!("{field}.name"));
    errors.extend(require::each(webhook, "rules", field, rule));
    for (key, allowed) in POLICIES {
        errors.extend(require::known(webhook, key, field, &allowed));
    }
    if at(webhook, &["sideEffects"]).as_str().is_none() {
        let why = "must specify one of None, NoneOnDryRun";
        errors.push(FieldError::required(format!("{field}.sideEffects"), why));
    }
    let effects = &["None", "NoneOnDryRun"];
    errors.extend(require::known(webhook, "sideEffects", field, effects));
    let why = "the timeout value must be between 1 and 30 seconds";
    let in_time = |seconds: i64| (1..=30).contains(&seconds);
    errors.extend(require::holds(webhook, "timeoutSeconds", field, in_time, why));
    for key in ["namespaceSelector", "objectSelector"] {
        let selector = at(webhook, &[key]);
        errors.extend(check::label_selector(selector, &format!("{field}.{key}")));
    }
    let config = at(webhook, &["clientConfig"]);
    errors.extend(client(config, &format!("{field}.clientConfig")));
    let policies = &["IfNeeded", "Never"];
    errors.extend(require::known(webhook, "reinvocationPolicy", field, policies));
    errors
}

fn client(config: &Value, field: &str) -> Vec<FieldError> {
    match (at(config, &["url"]).as_str(), has(config, &["service"])) {
        (None, false) | (Some(_), true) => {
            let why = "exactly one of url or service is required";
            vec![FieldError::required(field, why)]
        }
        (Some(url), false) => validate_url(url, &format!("{field}.url")),
        (None, true) => validate_service(at(config, &["service"]), &format!("{field}.service")),
    }
}

fn validate_url(url: &str, field: &str) -> Vec<FieldError> {
    const FORM: &str = "; desired format: https://host[/path]";
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let host = rest.split('/').next().unwrap_or("");
    let mut errors = Vec::new();
    if scheme != "https" {
        let why = format!("'https' is the only allowed URL scheme{FORM}");
        errors.push(FieldError::invalid(field, scheme, why));
    }
    if host.is_empty() || scheme.is_empty() {
        let why = format!("host must be specified{FORM}");
        errors.push(FieldError::invalid(field, "", why));
    }
    errors
}

fn validate_service(service: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = require::given(service, "name", field, "service name is required");
    let why = "service namespace is required";
    errors.extend(require::given(service, "namespace", field, why));
    let port = number(service, &["port"]).unwrap_or(0);
    if let Some(why) = check::port_number(port) {
        let why = format!("port is not valid: {why}");
        errors.push(FieldError::invalid(format!("{field}.port"), port, why));
    }
    errors
}

fn review_versions(webhook: &Value, field: &str) -> Vec<FieldError> {
    let field = format!("{field}.admissionReviewVersions");
    let versions = list(webhook, &["admissionReviewVersions"]);
    if versions.is_empty() {
        return vec![FieldError::required(field, "must specify one of v1, v1beta1")];
    }
    let mut errors = Vec::new();
    for (index, version) in versions.iter().enumerate() {
        let (name, field) = (version.as_str().unwrap_or(""), format!("{field}[{index}]"));
        if versions[..index].contains(version) {
            errors.push(FieldError::invalid(field, name, "duplicate version"));
        } else {
            errors.extend(check::invalid(&field, name, validation::dns_1035_label(name)));
        }
    }
    if !versions.iter().any(|version| version == "v1" || version == "v1beta1") {
        let shown = at(webhook, &["admissionReviewVersions"]).to_string();
        let why = "must include at least one of v1, v1beta1";
        errors.push(shown::invalid(field, &shown, why));
    }
    errors
}
