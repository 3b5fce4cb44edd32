//! `/scale` of the built-in workloads: an `autoscaling/v1` Scale that stands for their replicas.

use std::sync::Arc;

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::{Resource, View};
use aplomb_apimachinery::status::{ApiError, GroupResource};
use aplomb_builtin_kinds::{self as kinds, Subkind};
use aplomb_structured_merge::managed;
use serde_json::{Value, json};

use super::scale_owners::Versions;
use crate::registry;

const APPS: Versions = Versions(&["apps/v1", "apps/v1beta2", "apps/v1beta1", "extensions/v1beta1"]);
const CORE: Versions = Versions(&["v1"]);

/// The replicas of a workload.
#[derive(Debug)]
pub(super) struct ScaleView {
    pub(super) parent: Arc<Resource>,
}

impl ScaleView {
    fn versions(&self) -> &'static Versions {
        if self.parent.group.is_empty() { &CORE } else { &APPS }
    }

    /// As its label selector is written in a query.
    fn selector(&self, object: &Value) -> String {
        let selector = &object["spec"]["selector"];
        if self.parent.group.is_empty() {
            return kinds::label_selector_text(&json!({ "matchLabels": selector }));
        }
        kinds::label_selector_text(selector)
    }

    fn check(&self, object: &Value, scale: &Value, replicas: i64) -> Result<(), ApiError> {
        let kind = kinds::subkind(Subkind::Scale);
        let mut errors = registry::metadata_errors(&kind, scale);
        if replicas < 0 {
            let detail = "must be greater than or equal to 0";
            errors.push(FieldError::invalid("spec.replicas", replicas, detail));
        }
        let name = object::name(object);
        if !errors.is_empty() {
            return Err(ApiError::invalid(&kind.group_kind(), name, &errors));
        }
        let (stated, uid) = (object::uid(scale), object::uid(object));
        if !stated.is_empty() && stated != uid {
            let why = format!("Precondition failed: UID in precondition: {stated}, UID in object meta: {uid}");
            let plural = format!("{}/scale", self.parent.plural);
            let resource = GroupResource::new(&self.parent.group, plural);
            return Err(ApiError::conflict(&resource, name, &why));
        }
        Ok(())
    }
}

impl View for ScaleView {
    fn name(&self) -> &'static str {
        "scale"
    }

    fn parent(&self) -> &Arc<Resource> {
        &self.parent
    }

    fn show(&self, object: &Value) -> Result<Value, ApiError> {
        let mut metadata = json!({});
        for member in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            if let Some(value) = object.pointer(&format!("/metadata/{member}")) {
                metadata[member] = value.clone();
            }
        }
        let number = |path: &str| object.pointer(path).and_then(Value::as_i64).unwrap_or(0);
        let mut scale = json!({
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": metadata,
            "spec": {},
            "status": { "replicas": number("/status/replicas") },
        });
        if number("/spec/replicas") != 0 {
            scale["spec"]["replicas"] = number("/spec/replicas").into();
        }
        let selector = self.selector(object);
        if !selector.is_empty() {
            scale["status"]["selector"] = selector.into();
        }
        let owners = managed::decode(object).map_err(|why| ApiError::new(500, "", why))?;
        managed::encode(&self.versions().of_scale(&owners), &mut scale);
        Ok(scale)
    }

    fn take_back(&self, object: &Value, shown: Value, _now: &str) -> Result<Value, ApiError> {
        let replicas = shown["spec"]["replicas"].as_i64().unwrap_or(0);
        self.check(object, &shown, replicas)?;
        let mut changed = object.clone();
        changed["spec"]["replicas"] = replicas.into();
        let version = shown["metadata"].get("resourceVersion").cloned();
        object::set_or_remove(&mut changed, "resourceVersion", version);
        let refuse = |why: String| ApiError::new(500, "", why);
        let whole = managed::decode(object).map_err(refuse)?;
        let scale = managed::decode(&shown).map_err(refuse)?;
        let owners = self.versions().of_whole(&whole, scale, &self.parent.api_version());
        managed::encode(&owners, &mut changed);
        Ok(changed)
    }

    fn by_rules_of_kind(&self) -> bool {
        true
    }
}
