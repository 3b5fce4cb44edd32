//! One request as policies see it: the server's AdmissionRequest without the objects, which have
//! variables of their own.

use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::Part;
use serde_json::{Map, Value, json};

use crate::call::{Call, FieldValidation, Verb};

/// What a request does to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A new object.
    Create,
    /// A change, whatever its form.
    Update,
    /// The removal of one object.
    Delete,
}

impl Operation {
    /// The name rules and expressions use.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// Group, version and kind, or group, version and plural.
pub(super) type Triple = (String, String, String);

/// What is to be judged.
#[derive(Clone, Debug)]
pub(crate) struct Request<'a> {
    pub(super) call: &'a Call,
    pub(super) operation: Operation,
    pub(super) subresource: &'a str,
    pub(super) kind: Triple,
    /// The name in the path, or the one a new object came with: a generated one is not known yet.
    pub(super) name: &'a str,
    pub(super) object: Option<&'a Value>,
    pub(super) old: Option<&'a Value>,
}

impl<'a> Request<'a> {
    /// The creation of an object that came with `name`.
    pub(crate) fn create(call: &'a Call, name: &'a str, object: &'a Value) -> Self {
        Self::new(call, Operation::Create, name, Some(object), None)
    }

    /// A change of `old` to `object`.
    pub(crate) fn update(call: &'a Call, object: &'a Value, old: &'a Value) -> Self {
        let name = call.name.as_deref().unwrap_or_default();
        Self::new(call, Operation::Update, name, Some(object), Some(old))
    }

    /// The deletion of `old`, alone or with others: then the request names nobody.
    pub(crate) fn delete(call: &'a Call, old: &'a Value) -> Self {
        let name = match call.verb {
            Verb::DeleteCollection => "",
            _ => call.name.as_deref().unwrap_or_default(),
        };
        Self::new(call, Operation::Delete, name, None, Some(old))
    }

    fn new(
        call: &'a Call,
        operation: Operation,
        name: &'a str,
        object: Option<&'a Value>,
        old: Option<&'a Value>,
    ) -> Self {
        let resource = &call.resource;
        Self {
            call,
            operation,
            subresource: match call.part {
                Part::Main => "",
                Part::Status => "status",
            },
            kind: triple(&resource.group, &resource.version, &resource.kind),
            name,
            object,
            old,
        }
    }

    /// The same through a subresource whose objects are of a kind of their own.
    pub(crate) fn through(mut self, subresource: &'a str, api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.kind = triple(group, version, kind);
        self.subresource = subresource;
        self
    }

    /// The resource of the path.
    pub(super) fn resource(&self) -> Triple {
        let resource = &self.call.resource;
        triple(&resource.group, &resource.version, &resource.plural)
    }

    /// The namespace of the request; a namespace is in itself.
    pub(super) fn namespace(&self) -> &str {
        let resource = &self.call.resource;
        if resource.group.is_empty() && resource.plural == "namespaces" {
            return self.name;
        }
        self.call.namespace.as_deref().unwrap_or_default()
    }

    /// What a refusal names.
    pub(super) fn shown_name(&self) -> &str {
        if !self.name.is_empty() {
            return self.name;
        }
        let object = self.object.unwrap_or(&Value::Null);
        match (object::name(object), object::meta_str(object, "generateName")) {
            ("", "") => "Unknown",
            ("", prefix) => prefix,
            (name, _) => name,
        }
    }

    /// The variable `request`, for a policy that matched the request as `resource` and `kind`.
    pub(super) fn variable(&self, resource: &Triple, kind: &Triple) -> Value {
        let gvk = |(group, version, kind): &Triple| json!({ "group": group, "version": version, "kind": kind });
        let gvr =
            |(group, version, resource): &Triple| json!({ "group": group, "version": version, "resource": resource });
        let mut request = json!({
            "kind": gvk(kind),
            "resource": gvr(resource),
            "requestKind": gvk(&self.kind),
            "requestResource": gvr(&self.resource()),
            "operation": self.operation.as_str(),
            "userInfo": self.user(),
            "dryRun": self.call.options.dry_run,
            "options": self.options(),
        });
        let optional = [
            ("subResource", self.subresource),
            ("requestSubResource", self.subresource),
            ("name", self.name),
            ("namespace", self.namespace()),
        ];
        for (member, value) in optional.into_iter().filter(|(_, value)| !value.is_empty()) {
            request[member] = value.into();
        }
        request
    }

    fn user(&self) -> Value {
        let user = &self.call.user;
        let mut info = Map::new();
        for (member, value) in [("username", &user.name), ("uid", &user.uid)] {
            if !value.is_empty() {
                info.insert(member.to_owned(), value.as_str().into());
            }
        }
        if !user.groups.is_empty() {
            info.insert("groups".to_owned(), user.groups.clone().into());
        }
        Value::Object(info)
    }

    fn options(&self) -> Value {
        let options = &self.call.options;
        let kind = match self.operation {
            Operation::Create => "CreateOptions",
            Operation::Update => "UpdateOptions",
            Operation::Delete => "DeleteOptions",
        };
        let mut shown = json!({ "kind": kind, "apiVersion": "meta.k8s.io/v1" });
        if options.dry_run {
            shown["dryRun"] = json!(["All"]);
        }
        if self.operation == Operation::Delete {
            self.delete_options(&mut shown);
            return shown;
        }
        if let Some(manager) = &options.field_manager {
            shown["fieldManager"] = manager.as_str().into();
        }
        match options.field_validation {
            FieldValidation::Ignore => shown["fieldValidation"] = "Ignore".into(),
            FieldValidation::Strict => shown["fieldValidation"] = "Strict".into(),
            FieldValidation::Warn => {}
        }
        shown
    }

    fn delete_options(&self, shown: &mut Value) {
        let delete = &self.call.options.delete;
        if let Some(seconds) = delete.grace_period_seconds {
            shown["gracePeriodSeconds"] = seconds.into();
        }
        if let Some(policy) = &delete.propagation_policy {
            shown["propagationPolicy"] = policy.as_str().into();
        }
        if let Some(orphan) = delete.orphan_dependents {
            shown["orphanDependents"] = orphan.into();
        }
        for (member, stated) in [("uid", &delete.uid), ("resourceVersion", &delete.resource_version)] {
            if let Some(stated) = stated {
                shown["preconditions"][member] = stated.as_str().into();
            }
        }
    }
}

pub(super) fn triple(group: &str, version: &str, last: &str) -> Triple {
    (group.to_owned(), version.to_owned(), last.to_owned())
}
