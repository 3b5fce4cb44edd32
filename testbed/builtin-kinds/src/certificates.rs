//! Certificate signing requests: stored, approved and printed. Nothing here signs.

use jiff::Timestamp;
use serde_json::{Value, json};

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::resource::Part;
use aplomb_apimachinery::validation;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::behavior::KindBehavior;
use super::print::{NONE, age, name, or, seconds};
use super::value::{at, list, number, restore, set, text};
use super::{check, require};

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// How signing requests behave.
pub(super) const SIGNING_REQUEST: KindBehavior = KindBehavior {
    name: validation::path_segment,
    prepare_create: |request| set(request, &["status"], json!({})),
    prepare_update: |request, old, part| {
        if part == Part::Main {
            restore(request, old, &["spec"]);
        }
    },
    validate,
    validate_update: |_, _, _| Vec::new(),
    validates_updates: false,
    unowned_by_status: &[&["spec"], &["status", "conditions"]],
    unowned_by_main: &[&["spec"], &["status"]],
    selectable: |request| {
        let signer = text(request, &["spec", "signerName"]).to_owned();
        vec![("spec.signerName".to_owned(), signer)]
    },
    cells,
    ..KindBehavior::PLAIN
};

fn cells(request: &Value, now: Timestamp) -> Vec<Value> {
    let duration = number(request, &["spec", "expirationSeconds"]);
    vec![
        name(request),
        age(request, now),
        or(text(request, &["spec", "signerName"]), NONE).into(),
        text(request, &["spec", "username"]).into(),
        duration.map_or(NONE.to_owned(), seconds).into(),
        condition(request).into(),
    ]
}

fn condition(request: &Value) -> String {
    let has = |kind: &str| {
        list(request, &["status", "conditions"])
            .iter()
            .any(|condition| text(condition, &["type"]) == kind)
    };
    let decision = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    };
    let failed = if has("Failed") { ",Failed" } else { "" };
    let issued = match text(request, &["status", "certificate"]) {
        "" => "",
        _ => ",Issued",
    };
    format!("{decision}{failed}{issued}")
}

fn validate(request: &Value) -> Vec<FieldError> {
    let spec = at(request, &["spec"]);
    let mut errors = Vec::new();
    let encoded = text(spec, &["request"]);
    let pem = STANDARD.decode(encoded).unwrap_or_default();
    let head = b"-----BEGIN CERTIFICATE REQUEST-----";
    if !pem.windows(head.len()).any(|window| window == head) {
        let why = "PEM block type must be CERTIFICATE REQUEST";
        let shown = at(spec, &["request"]).clone();
        errors.push(FieldError::invalid("spec.request", shown, why));
    }
    let usages = list(spec, &["usages"]);
    if usages.is_empty() {
        errors.push(FieldError::required("spec.usages", ""));
    }
    for (index, usage) in usages.iter().enumerate() {
        let field = format!("spec.usages[{index}]");
        errors.extend(check::one_of(&field, usage.as_str().unwrap_or(""), &USAGES));
    }
    for (index, usage) in usages.iter().enumerate() {
        if usages[..index].contains(usage) {
            errors.push(FieldError::duplicate(format!("spec.usages[{index}]"), usage.clone()));
        }
    }
    errors.extend(signer(text(spec, &["signerName"])));
    let why = "may not specify a duration less than 600 seconds (10 minutes)";
    errors.extend(require::holds(spec, "expirationSeconds", "spec", |n| n >= 600, why));
    errors
}

fn signer(name: &str) -> Vec<FieldError> {
    let field = "spec.signerName";
    if name.is_empty() {
        return vec![FieldError::required(field, "")];
    }
    match name.split('/').collect::<Vec<_>>().as_slice() {
        [domain, path] if !path.is_empty() => {
            let mut errors = check::invalid(field, domain, validation::dns_subdomain(domain, false));
            if !domain.contains('.') {
                let why = "should be a domain with at least two segments separated by dots";
                errors.push(FieldError::invalid(field, *domain, why));
            }
            errors
        }
        _ => {
            let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
            vec![FieldError::invalid(field, name, why)]
        }
    }
}
