//! Leases.

use aplomb_apimachinery::field::{ErrorType, FieldError};
use jiff::Timestamp;
use serde_json::Value;

use super::behavior::KindBehavior;
use super::print::{age, name};
use super::value::{at, number, set, text};

/// How leases behave.
pub(super) const LEASE: KindBehavior = KindBehavior {
    // Coordinated leader election is off, so its two fields are not kept.
    prepare_create: |lease| {
        set(lease, &["spec", "strategy"], Value::Null);
        set(lease, &["spec", "preferredHolder"], Value::Null);
    },
    prepare_update: |lease, old, _| {
        for field in ["strategy", "preferredHolder"] {
            if at(old, &["spec", field]).is_null() {
                set(lease, &["spec", field], Value::Null);
            }
        }
    },
    validate,
    unconditional: false,
    create_on_update: true,
    cells,
    ..KindBehavior::PLAIN
};

fn validate(lease: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut wrong = |key: &str, why: &str| {
        let field = format!("spec.{key}");
        errors.push(FieldError::new(
            ErrorType::Invalid,
            field,
            at(lease, &["spec", key]).clone(),
            why,
        ));
    };
    if number(lease, &["spec", "leaseDurationSeconds"]).is_some_and(|seconds| seconds <= 0) {
        wrong("leaseDurationSeconds", "must be greater than 0");
    }
    if number(lease, &["spec", "leaseTransitions"]).is_some_and(|transitions| transitions < 0) {
        wrong("leaseTransitions", "must be greater than or equal to 0");
    }
    errors
}

fn cells(lease: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(lease),
        text(lease, &["spec", "holderIdentity"]).into(),
        age(lease, now),
    ]
}
