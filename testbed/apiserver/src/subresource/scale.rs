//! `/scale` of a custom resource: an `autoscaling/v1` Scale that stands for three fields of the
//! object, wherever the definition says they are.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::json as json_text;
use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::{Part, Resource};
use aplomb_apimachinery::status::{ApiError, GroupResource};
use aplomb_structured_merge::{FieldManager, Writer};
use serde_json::{Value, json};

use crate::admission::{self, Request};
use crate::call::{Call, PatchType, Verb};
use crate::registry::check_name;
use crate::registry::field_management;
use crate::server::{ApiServer, key_of};

/// Where the fields of a Scale are in the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    spec: Vec<String>,
    status: Vec<String>,
    selector: Option<Vec<String>>,
}

impl Paths {
    /// What the definition of a resource says about `/scale`, if anything.
    #[must_use]
    pub fn of(server: &ApiServer, resource: &Resource) -> Option<Self> {
        let name = format!("{}.{}", resource.plural, resource.group);
        let crd = server.get("apiextensions.k8s.io", "customresourcedefinitions", "", &name)?;
        let versions = crd.pointer("/spec/versions").and_then(Value::as_array)?;
        let version = versions
            .iter()
            .find(|version| version["name"] == resource.version.as_str())?;
        let scale = version.pointer("/subresources/scale")?;
        let path = |member: &str| {
            let path = scale.get(member)?.as_str()?;
            Some(
                path.split('.')
                    .filter(|part| !part.is_empty())
                    .map(str::to_owned)
                    .collect(),
            )
        };
        Some(Self {
            spec: path("specReplicasPath")?,
            status: path("statusReplicasPath")?,
            selector: path("labelSelectorPath"),
        })
    }

    /// The Scale of an object.
    fn view(&self, object: &Value) -> Value {
        let number = |path: &[String]| at(object, path).and_then(Value::as_i64).unwrap_or(0);
        let mut metadata = json!({});
        for member in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            if let Some(value) = object.pointer(&format!("/metadata/{member}")) {
                metadata[member] = value.clone();
            }
        }
        let mut status = json!({ "replicas": number(&self.status) });
        let selector = self.selector.as_ref().and_then(|path| at(object, path)?.as_str());
        if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
            status["selector"] = selector.into();
        }
        json!({
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": metadata,
            "spec": { "replicas": number(&self.spec) },
            "status": status,
        })
    }
}

fn at<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, part| value.get(part))
}

fn set(object: &mut Value, path: &[String], value: Value) {
    let place = path.iter().fold(object, |place, part| {
        if !place.is_object() {
            *place = json!({});
        }
        &mut place[part.as_str()]
    });
    *place = value;
}

/// Carries out a call on `/scale`: reads, or changes the replicas and nothing else.
///
/// # Errors
/// What the server answers instead of the Scale.
pub fn handle(server: &ApiServer, paths: &Paths, call: &Call) -> Result<Value, ApiError> {
    let resource = &call.resource;
    let strategy = &resource.strategy;
    let name = call.name.as_deref().unwrap_or_default();
    let key = key_of(&resource.storage, call.namespace.as_deref(), name);
    loop {
        let missing = || ApiError::not_found(&resource.group_resource(), name);
        let stored = server.store().get(&key).ok_or_else(missing)?;
        let live = strategy.from_storage(Value::clone(&stored));
        let view = paths.view(&live);
        if call.verb == Verb::Get {
            return Ok(view);
        }
        let wanted = wanted(call, &view)?;
        check(call, &wanted, &live)?;
        let mut object = changed(server, paths, call, &live, &wanted)?;
        strategy.prepare_update(&mut object, &live, Part::Main);
        let errors = strategy.validate_update(&object, &live, Part::Main);
        if !errors.is_empty() {
            return Err(ApiError::invalid(&resource.group_kind(), name, &errors));
        }
        let scaled = paths.view(&object);
        let request = Request::update(call, &scaled, &view);
        admission::validate(server, &request.through("scale", "autoscaling/v1", "Scale"))?;
        if call.options.dry_run {
            return Ok(scaled);
        }
        let _alone = server.writing();
        let next = Some(strategy.to_storage(object));
        if let Ok(written) = server.store().commit(&key, Some(&stored), next) {
            return Ok(paths.view(&strategy.from_storage(Value::clone(&written))));
        }
    }
}

/// The Scale a request asks for.
fn wanted(call: &Call, view: &Value) -> Result<Value, ApiError> {
    let body = json_text::parse(&call.body).map_err(ApiError::bad_request)?.value;
    match call.patch_type {
        None | Some(PatchType::Apply) => {
            let stated = |member: &str| object::text(&body, member);
            let kind = (stated("apiVersion"), stated("kind"));
            if kind != ("autoscaling/v1", "Scale") && kind != ("", "") {
                return Err(ApiError::bad_request(
                    "no kind is registered for the type v1.Scale in scheme \"pkg/runtime/scheme.go:111\"",
                ));
            }
            Ok(body)
        }
        Some(PatchType::Json) => {
            let refused = || {
                let message = "the server rejected our request due to an error in our request";
                ApiError {
                    details: Some(json!({})),
                    ..ApiError::new(422, "Invalid", message)
                }
            };
            let patch: json_patch::Patch = serde_json::from_value(body).map_err(|_| refused())?;
            let mut patched = view.clone();
            json_patch::patch(&mut patched, &patch).map_err(|_| refused())?;
            Ok(patched)
        }
        Some(PatchType::Merge | PatchType::StrategicMerge) => {
            let mut patched = view.clone();
            json_patch::merge(&mut patched, &body);
            Ok(patched)
        }
    }
}

fn check(call: &Call, wanted: &Value, live: &Value) -> Result<(), ApiError> {
    check_name(call, wanted)?;
    let version = object::resource_version(wanted);
    if !version.is_empty() && version != object::resource_version(live) {
        let name = call.name.as_deref().unwrap_or_default();
        return Err(ApiError::modified(&call.resource.group_resource(), name));
    }
    Ok(())
}

/// The live object with the replicas of the wanted Scale, and who owns them now.
fn changed(server: &ApiServer, paths: &Paths, call: &Call, live: &Value, wanted: &Value) -> Result<Value, ApiError> {
    let resource = &call.resource;
    let replicas = replicas(paths, call, live, wanted)?;
    let agent = call.user_agent.split('/').next().unwrap_or_default();
    let time = server.clock().now_seconds();
    let api_version = resource.api_version();
    let name = call.options.field_manager.as_deref().unwrap_or(agent);
    let writer = Writer {
        manager: &format!("{name}{MARK}"),
        api_version: &api_version,
        subresource: "",
        time: &time,
    };
    let manager = server.field_manager(resource);
    let marked = marked(live.clone());
    let mut object = if call.patch_type == Some(PatchType::Apply) {
        let metadata = json!({ "name": object::name(live), "namespace": object::namespace(live) });
        let mut applied = json!({ "apiVersion": api_version, "kind": resource.kind, "metadata": metadata });
        set(&mut applied, &paths.spec, replicas.into());
        let force = call.options.force == Some(true);
        let merged = manager.apply(Some(&marked), &applied, &writer, force);
        merged.map_err(field_management::refused)?
    } else {
        let mut object = marked.clone();
        set(&mut object, &paths.spec, replicas.into());
        manager.update(Some(&marked), object, &writer)
    };
    unmark(&mut object);
    FieldManager::ignore_timestamps(live, &mut object);
    Ok(object)
}

/// The replicas a Scale asks for.
fn replicas(paths: &Paths, call: &Call, live: &Value, wanted: &Value) -> Result<i64, ApiError> {
    let replicas = match wanted.pointer("/spec/replicas").unwrap_or(&Value::Null) {
        Value::Null => 0,
        given => given.as_i64().ok_or_else(|| no_number(call, wanted, given))?,
    };
    if replicas < 0 {
        let field = format!(".{}", paths.spec.join("."));
        let error = FieldError::invalid(field, replicas, "should be a non-negative integer");
        let (kind, name) = (call.resource.group_kind(), object::name(live));
        return Err(ApiError::invalid(&kind, name, &[error]));
    }
    Ok(replicas)
}

/// Replicas that are no number: a patch is quoted whole, a PUT is only refused.
fn no_number(call: &Call, wanted: &Value, given: &Value) -> ApiError {
    let kind = match given {
        Value::Bool(_) => "bool",
        Value::Number(number) => &format!("number {number}"),
        Value::String(_) => "string",
        Value::Array(_) => "array",
        _ => "object",
    };
    let why = format!("json: cannot unmarshal {kind} into Go struct field ScaleSpec.spec.replicas of type int32");
    if call.patch_type.is_none() {
        return ApiError::bad_request(why);
    }
    let error = FieldError::invalid("patch", wanted.to_string(), why);
    ApiError::invalid(&GroupResource::default(), "", &[error])
}

/// Stands in a manager's name for the subresource while fields of the whole object are merged:
/// a Scale owns fields that nobody owns through a subresource otherwise.
const MARK: &str = "\u{0}scale";

fn managers(object: &mut Value) -> Option<&mut Vec<Value>> {
    object
        .pointer_mut("/metadata/managedFields")
        .and_then(Value::as_array_mut)
}

fn marked(mut object: Value) -> Value {
    for entry in managers(&mut object).into_iter().flatten() {
        if entry["subresource"] == "scale" {
            let name = format!("{}{MARK}", object::text(entry, "manager"));
            entry["manager"] = name.into();
            entry["subresource"] = "".into();
        }
    }
    object
}

/// Undoes `marked`. The server keeps no time of what was owned through a Scale, which puts such
/// entries before others.
fn unmark(object: &mut Value) {
    let Some(entries) = managers(object) else {
        return;
    };
    for entry in entries.iter_mut() {
        let name = object::text(entry, "manager").strip_suffix(MARK).map(str::to_owned);
        let (Some(name), Some(members)) = (name, entry.as_object_mut()) else {
            continue;
        };
        members.insert("manager".into(), name.into());
        members.insert("subresource".into(), "scale".into());
        members.remove("time");
    }
    let key = |entry: &Value| {
        ["operation", "time", "manager", "apiVersion", "subresource"]
            .map(|member| object::text(entry, member).to_owned())
    };
    entries.sort_by_key(key);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_shows_the_fields_the_definition_names() {
        let words = |path: &str| path.split('.').map(str::to_owned).collect::<Vec<_>>();
        let paths = Paths {
            spec: words("spec.replicas"),
            status: words("status.replicas"),
            selector: Some(words("status.selector")),
        };
        let mut object = json!({ "metadata": { "name": "a", "labels": {} }, "spec": { "x": 1 } });
        assert_eq!(paths.view(&object)["spec"], json!({ "replicas": 0 }));
        set(&mut object, &paths.spec, 3.into());
        set(&mut object, &paths.status, 2.into());
        set(&mut object, &words("status.selector"), "a=b".into());
        let view = paths.view(&object);
        assert_eq!(view["spec"]["replicas"], 3);
        assert_eq!(view["status"], json!({ "replicas": 2, "selector": "a=b" }));
        assert_eq!(view["metadata"], json!({ "name": "a" }));
        assert_eq!(object["spec"]["x"], 1);
    }
}
