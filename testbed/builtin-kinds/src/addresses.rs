//! Service CIDRs and the addresses given out of them, as objects.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::resource::Part;
use aplomb_apimachinery::validation;
use serde_json::Value;

use super::behavior::KindBehavior;
use super::print::{NONE, age, name};
use super::value::{at, list, text};
use super::{check, require, shown};

/// How service CIDRs behave.
pub(super) const SERVICE_CIDR: KindBehavior = KindBehavior {
    validate: |cidr| cidrs(at(cidr, &["spec"])),
    validate_update: |new, old, part| match part {
        Part::Main => cidrs_stay(new, old),
        Part::Status => Vec::new(),
    },
    validates_updates: false,
    fixed_by_status: super::behavior::SPEC_AND_METADATA,
    unowned_by_status: &[&["spec"], &["metadata"]],
    cells: |cidr, now| {
        let cidrs: Vec<&str> = list(cidr, &["spec", "cidrs"])
            .iter()
            .filter_map(Value::as_str)
            .collect();
        vec![name(cidr), cidrs.join(",").into(), age(cidr, now)]
    },
    ..KindBehavior::PLAIN
};

/// How IP addresses behave.
pub(super) const IP_ADDRESS: KindBehavior = KindBehavior {
    name: |name, _| {
        check::canonical_ip(name, "")
            .into_iter()
            .map(|error| error.detail)
            .collect()
    },
    validate: parent,
    validate_update: |new, old, _| {
        if at(new, &["spec", "parentRef"]) == at(old, &["spec", "parentRef"]) {
            return Vec::new();
        }
        let parent = at(new, &["spec", "parentRef"]);
        let part = |key: &str| Value::from(text(parent, &[key])).to_string();
        let shown = shown::object(&[
            ("Group", part("group")),
            ("Resource", part("resource")),
            ("Namespace", part("namespace")),
            ("Name", part("name")),
        ]);
        vec![shown::invalid("spec.parentRef", &shown, "field is immutable")]
    },
    cells: |address, now| {
        let parent = at(address, &["spec", "parentRef"]);
        let part = |key: &str| text(parent, &[key]);
        let shown = if parent.is_null() {
            NONE.to_owned()
        } else {
            let dot = if part("group").is_empty() { "" } else { "." };
            let resource = format!("{}{dot}{}", part("resource"), part("group")).to_lowercase();
            let slash = if part("namespace").is_empty() { "" } else { "/" };
            format!("{resource}{slash}{}/{}", part("namespace"), part("name"))
        };
        // The server prints an age for which it has no column.
        vec![name(address), shown.into(), age(address, now)]
    },
    ..KindBehavior::PLAIN
};

fn cidrs(spec: &Value) -> Vec<FieldError> {
    let cidrs = list(spec, &["cidrs"]);
    let field = "spec.cidrs";
    if cidrs.is_empty() {
        return vec![FieldError::required(field, "at least one CIDR required")];
    }
    if cidrs.len() > 2 {
        let shown = shown::object(&[("CIDRs", at(spec, &["cidrs"]).to_string())]);
        return vec![shown::invalid(field, &shown, "may only hold up to 2 values")];
    }
    let mut errors = Vec::new();
    let mut families = Vec::new();
    for (index, cidr) in cidrs.iter().enumerate() {
        let cidr = cidr.as_str().unwrap_or("");
        errors.extend(check::cidr(cidr, &format!("{field}[{index}]")));
        families.extend(check::parse_cidr(cidr).map(|(address, _)| address.is_ipv4()));
    }
    if let [first, second] = families.as_slice()
        && first == second
    {
        let why = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        let shown = at(spec, &["cidrs"]).to_string();
        errors.push(shown::invalid(field, &shown, why));
    }
    errors
}

/// A second family may be added; nothing may be changed.
fn cidrs_stay(new: &Value, old: &Value) -> Vec<FieldError> {
    let (now, before) = (list(new, &["spec", "cidrs"]), list(old, &["spec", "cidrs"]));
    let why = "field is immutable";
    if now.len() != before.len() && (before.len(), now.len()) != (1, 2) {
        let shown = at(new, &["spec", "cidrs"]).to_string();
        return vec![shown::invalid("spec.cidrs", &shown, why)];
    }
    let mut errors = Vec::new();
    for (index, (now, before)) in now.iter().zip(before).enumerate() {
        if now != before {
            let field = format!("spec.cidrs[{index}]");
            errors.push(FieldError::invalid(field, now.clone(), why));
        }
    }
    if now.len() != before.len() {
        errors.extend(cidrs(at(new, &["spec"])));
    }
    errors
}

fn parent(address: &Value) -> Vec<FieldError> {
    let parent = at(address, &["spec", "parentRef"]);
    let field = "spec.parentRef";
    if parent.is_null() {
        return vec![FieldError::required(field, "")];
    }
    let segment = |name: &str| validation::path_segment(name, false);
    let mut errors = Vec::new();
    let group = text(parent, &["group"]);
    if !group.is_empty() {
        let wrong = validation::dns_subdomain(group, false);
        errors.extend(check::invalid(&format!("{field}.group"), group, wrong));
    }
    errors.extend(require::named(parent, "resource", field, segment));
    errors.extend(require::named(parent, "name", field, segment));
    errors
}
