//! Who owns which field: where the verbs meet structured merge. Managers are built from strategies,
//! and what they refuse is told in the server's words.

use std::collections::BTreeMap;
use std::sync::Arc;

use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::{Part, Resource, Strategy};
use aplomb_apimachinery::status::ApiError;
use aplomb_builtin_kinds as kinds;
use aplomb_structured_merge::types::Convert;
use aplomb_structured_merge::{FieldManager, MergeError, Version, Writer, conflict};
use serde_json::{Value, json};

use crate::call::Call;
use crate::mutation::Rule;
use crate::server::ApiServer;

/// The name of a manager taken from a user agent is cut to this.
const MANAGER_LIMIT: usize = 128;

/// Field management for one call.
#[derive(Debug)]
pub(super) struct Managers {
    manager: Arc<FieldManager>,
    name: String,
    api_version: String,
    subresource: &'static str,
    time: String,
    keeps_dropped: bool,
}

impl Managers {
    pub(super) fn of(server: &ApiServer, call: &Call) -> Self {
        let stated = call.options.field_manager.clone().filter(|name| !name.is_empty());
        Self {
            manager: server.field_manager(&call.resource),
            name: stated.unwrap_or_else(|| from_user_agent(&call.user_agent)),
            api_version: call.resource.api_version(),
            subresource: match (&call.view, call.part) {
                (Some(view), _) => view.name(),
                (None, Part::Status) => "status",
                (None, Part::Main) => "",
            },
            time: server.clock().now_seconds(),
            keeps_dropped: server.broken(Rule::SsaPrune),
        }
    }

    /// The same for what is written through a subresource.
    pub(super) fn through(self, subresource: &'static str) -> Self {
        Self { subresource, ..self }
    }

    fn writer(&self) -> Writer<'_> {
        Writer {
            manager: &self.name,
            api_version: &self.api_version,
            subresource: self.subresource,
            time: &self.time,
        }
    }

    /// The object with its owners after a write that is not an apply.
    pub(super) fn update(&self, live: Option<&Value>, object: Value) -> Value {
        self.manager.update(live, object, &self.writer())
    }

    /// What an apply makes of the live object.
    pub(super) fn apply(&self, live: Option<&Value>, applied: &Value, force: bool) -> Result<Value, ApiError> {
        let merged = self.manager.apply(live, applied, &self.writer(), force);
        let mut merged = merged.map_err(refused)?;
        if let Some(live) = live.filter(|_| self.keeps_dropped) {
            let owners = object::metadata(&merged).and_then(|meta| meta.get("managedFields").cloned());
            let mut kept = live.clone();
            json_patch::merge(&mut kept, &merged);
            object::set_or_remove(&mut kept, "managedFields", owners);
            merged = kept;
        }
        Ok(merged)
    }
}

/// The user agent up to its first slash, printable and not too long.
fn from_user_agent(user_agent: &str) -> String {
    let first = user_agent.split('/').next().unwrap_or_default();
    let mut name = String::new();
    for c in first.chars().filter(|c| !c.is_control()) {
        if name.len() + c.len_utf8() > MANAGER_LIMIT {
            break;
        }
        name.push(c);
    }
    name
}

/// For one resource in all its versions: everything that shares a kind and a place in storage.
#[must_use]
pub(crate) fn field_manager(versions: &[&Resource]) -> FieldManager {
    let kind = versions.first().map_or("", |resource| resource.kind.as_str());
    let custom = versions.iter().any(|resource| resource.strategy.is_custom());
    let names: Vec<String> = versions.iter().map(|resource| resource.api_version()).collect();
    let described: Vec<Version<'_>> = versions
        .iter()
        .zip(&names)
        .map(|(resource, api_version)| Version {
            api_version,
            openapi: schema(resource, custom),
            empty: if custom {
                json!({})
            } else {
                kinds::empty_object(resource)
            },
            reset_main: resource.strategy.reset_fields(Part::Main),
            reset_status: resource.strategy.reset_fields(Part::Status),
        })
        .collect();
    let manager = FieldManager::new(kind, &described, kinds::components(), custom);
    // Custom resources have one form in all versions; what is half pruned must not be read as
    // if it came from storage.
    if custom || versions.len() == 1 {
        manager
    } else {
        manager.with_conversion(through_storage(versions))
    }
}
fn through_storage(versions: &[&Resource]) -> Convert {
    let strategies: BTreeMap<String, Arc<dyn Strategy>> = versions
        .iter()
        .map(|r| (r.api_version(), Arc::clone(&r.strategy)))
        .collect();
    Arc::new(
        move |object, from, to| match (strategies.get(from), strategies.get(to)) {
            (Some(from), Some(to)) => to.from_storage(from.to_storage(object.clone())),
            _ => object.clone(),
        },
    )
}

/// A built-in kind's schema is taken with its references: inlined it cannot hold a type that is
/// inside itself, as the schemas of CRDs are.
fn schema(resource: &Resource, custom: bool) -> &Value {
    let wanted = json!([{
        "group": resource.group, "version": resource.version, "kind": resource.kind,
    }]);
    let mut components = kinds::components().values().filter(|_| !custom);
    let component = components.find(|schema| schema.get("x-kubernetes-group-version-kind") == Some(&wanted));
    component.unwrap_or_else(|| resource.strategy.openapi())
}

/// The answer to a merge that failed.
pub(crate) fn refused(error: MergeError) -> ApiError {
    match error {
        MergeError::Conflicts(conflicts) => {
            let causes: Vec<Value> = conflicts
                .iter()
                .map(conflict::Conflict::cause)
                .map(|cause| {
                    json!({
                        "reason": "FieldManagerConflict",
                        "message": cause.message,
                        "field": cause.field,
                    })
                })
                .collect();
            ApiError::new(409, "Conflict", conflict::message(&conflicts)).with_detail("causes", causes.into())
        }
        MergeError::BadRequest(message) => ApiError::bad_request(message),
        MergeError::Internal(message) => ApiError::new(500, "", message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aplomb_structured_merge::conflict::Conflict;
    use aplomb_structured_merge::managed::ManagerId;
    use aplomb_structured_merge::path::PathElement;

    fn conflict(manager: ManagerId, path: &str) -> Conflict {
        Conflict {
            manager,
            path: path.split('.').map(PathElement::field).collect(),
        }
    }

    #[test]
    fn one_conflict_is_told_in_one_line() {
        let conflicts = vec![conflict(ManagerId::applier("a", ""), "spec.replicas")];
        let error = refused(MergeError::Conflicts(conflicts));
        assert_eq!((error.code, error.reason), (409, "Conflict"));
        assert_eq!(
            error.message,
            "Apply failed with 1 conflict: conflict with \"a\": .spec.replicas"
        );
        let causes = json!({"causes": [{
            "reason": "FieldManagerConflict", "message": "conflict with \"a\"", "field": ".spec.replicas"
        }]});
        assert_eq!(error.details, Some(causes));
    }

    #[test]
    fn several_conflicts_are_listed_by_manager() {
        let conflicts = vec![
            conflict(ManagerId::updater("b", "v1", "status"), "status.x"),
            conflict(ManagerId::applier("a", ""), "spec.y"),
            conflict(ManagerId::updater("b", "v1", "status"), "status.z"),
        ];
        assert_eq!(
            refused(MergeError::Conflicts(conflicts)).message,
            "Apply failed with 3 conflicts: conflicts with \"a\":\n- .spec.y\nconflicts with \"b\" with subresource \"status\" using v1:\n- .status.x\n- .status.z"
        );
    }

    #[test]
    fn what_the_server_calls_internal_has_no_reason() {
        let error = refused(MergeError::Internal("why".into()));
        assert_eq!((error.code, error.reason, error.message.as_str()), (500, "", "why"));
    }

    #[test]
    fn the_user_agent_up_to_its_slash_is_the_manager() {
        assert_eq!(from_user_agent("kubectl/v1.36.4 (linux/amd64)"), "kubectl");
        assert_eq!(from_user_agent("a\nb"), "ab");
        assert_eq!(from_user_agent(&"x".repeat(200)).len(), 128);
    }
}
