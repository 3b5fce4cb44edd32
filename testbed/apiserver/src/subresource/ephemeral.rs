//! `pods/ephemeralcontainers`: containers added to a Pod for debugging, which nobody can take away.

use std::sync::Arc;

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::{Resource, View};
use aplomb_apimachinery::status::ApiError;
use serde_json::Value;

use super::whole::{judged, move_generation, take_stated};

/// The ephemeral containers of a Pod.
#[derive(Debug)]
pub(super) struct EphemeralContainers {
    pub(super) parent: Arc<Resource>,
}

/// What only containers that start with their Pod can have.
const NOT_EPHEMERAL: [&str; 7] = [
    "ports",
    "resources",
    "resizePolicy",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

impl EphemeralContainers {
    /// Each is checked as the only container of a Pod, and then for what ephemeral ones may not have.
    fn container_errors(&self, pod: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let others = ["initContainers", "containers"].map(|list| pod["spec"][list].as_array());
        let mut names: Vec<&str> = others
            .into_iter()
            .flatten()
            .flatten()
            .map(|container| object::text(container, "name"))
            .collect();
        for (index, (name, container)) in containers(pod).enumerate() {
            let field = format!("spec.ephemeralContainers[{index}]");
            let mut alone = pod.clone();
            alone["spec"]["ephemeralContainers"] = Value::Null;
            alone["spec"]["initContainers"] = Value::Null;
            alone["spec"]["containers"] = Value::Array(vec![container.clone()]);
            for mut error in self.parent.strategy.validate_create(&alone) {
                if let Some(rest) = error.field.strip_prefix("spec.containers[0]") {
                    error.field = format!("{field}{rest}");
                    errors.push(error);
                }
            }
            if names.contains(&name) {
                errors.push(FieldError::duplicate(format!("{field}.name"), name));
            }
            names.push(name);
            let has = |member: &&&str| match container.get(**member) {
                None | Some(Value::Null) => false,
                Some(Value::Object(members)) => !members.is_empty(),
                Some(Value::Array(items)) => !items.is_empty(),
                Some(_) => true,
            };
            for member in NOT_EPHEMERAL.iter().filter(has) {
                let why = "cannot be set for an Ephemeral Container";
                errors.push(FieldError::forbidden(format!("{field}.{member}"), why));
            }
        }
        errors
    }
}

impl View for EphemeralContainers {
    fn name(&self) -> &'static str {
        "ephemeralcontainers"
    }

    fn parent(&self) -> &Arc<Resource> {
        &self.parent
    }

    fn take_back(&self, object: &Value, shown: Value, _now: &str) -> Result<Value, ApiError> {
        let mut changed = object.clone();
        let wanted = shown["spec"]["ephemeralContainers"].as_array();
        if let Some(spec) = changed["spec"].as_object_mut() {
            spec.remove("ephemeralContainers");
            let some = wanted.filter(|wanted| !wanted.is_empty()).cloned();
            spec.extend(some.map(|some| ("ephemeralContainers".to_owned(), some.into())));
        }
        take_stated(&mut changed, &shown);
        move_generation(&mut changed, object);
        let mut errors = self.container_errors(&changed);
        errors.extend(changes(&changed, object));
        judged(&self.parent, changed, &errors)
    }
}

fn containers(pod: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let list = pod["spec"]["ephemeralContainers"].as_array();
    list.into_iter()
        .flatten()
        .map(|container| (object::text(container, "name"), container))
}

/// Containers may only be added.
fn changes(pod: &Value, old: &Value) -> Vec<FieldError> {
    const FIELD: &str = "spec.ephemeralContainers";
    if old["metadata"]["annotations"]
        .get("kubernetes.io/config.mirror")
        .is_some()
    {
        let why = "static pods do not support ephemeral containers";
        return vec![FieldError::forbidden("", why)];
    }
    let mut errors = Vec::new();
    for (name, before) in containers(old) {
        let name_text = aplomb_apimachinery::field::go_quote(name);
        match containers(pod).find(|(other, _)| *other == name) {
            None => errors.push(FieldError::forbidden(
                FIELD,
                format!("existing ephemeral containers {name_text} may not be removed\n"),
            )),
            Some((_, after)) if after != before => errors.push(FieldError::forbidden(
                FIELD,
                format!("existing ephemeral containers {name_text} may not be changed"),
            )),
            Some(_) => {}
        }
    }
    errors
}
