//! OwnerReferencesPermissionEnforcement: who may say that an object is owned, and who may hold up
//! the deletion of an owner.
//!
//! Off unless the server was made with it, as on the real server. It asks the authorizer and
//! nobody else.

use aplomb_apimachinery::field::go_quote;
use aplomb_apimachinery::object;
use aplomb_apimachinery::status::ApiError;
use serde_json::Value;

use super::request::{Operation, Request};
use crate::auth::{Attributes, rbac};
use crate::server::ApiServer;

/// Refuses a change of owners by somebody who may not delete the object, and one that blocks the
/// deletion of an owner whose finalizers its author may not set.
pub(super) fn check(server: &ApiServer, request: &Request<'_>) -> Result<(), ApiError> {
    let Some(new) = request.object else {
        return Ok(());
    };
    let resource = &request.call.resource;
    let pods = resource.group.is_empty() && resource.plural == "pods";
    // The strategy of a pod's status keeps its owners as they are.
    let exempt = pods && request.subresource == "status";
    if exempt || references(Some(new)) == references(request.old) {
        return Ok(());
    }
    if request.operation != Operation::Create {
        may_delete(server, request)?;
    }
    let blocking = newly_blocking(new, request.old);
    if blocking.is_empty() || allows(server, request, &finalizers("*", "*", "*", "")) {
        return Ok(());
    }
    for reference in blocking {
        may_finalize(server, request, reference)?;
    }
    Ok(())
}

fn references(object: Option<&Value>) -> &[Value] {
    let references = object.and_then(|it| it.pointer("/metadata/ownerReferences"));
    references.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// References that hold up their owner's deletion and did not before.
fn newly_blocking<'a>(new: &'a Value, old: Option<&Value>) -> Vec<&'a Value> {
    let blocks = |reference: &Value| reference["blockOwnerDeletion"] == true;
    let before = |reference: &Value| {
        let mut old = references(old).iter().rev();
        let same = old.find(|it| it["uid"] == reference["uid"]);
        same.is_some_and(blocks)
    };
    let new = references(Some(new)).iter();
    new.filter(|it| blocks(it) && !before(it)).collect()
}

fn allows(server: &ApiServer, request: &Request<'_>, asked: &Attributes) -> bool {
    rbac::authorize(server, &request.call.user, asked).allowed
}

fn may_delete(server: &ApiServer, request: &Request<'_>) -> Result<(), ApiError> {
    let resource = &request.call.resource;
    let asked = Attributes {
        is_resource: true,
        verb: "delete".to_owned(),
        group: resource.group.clone(),
        resource: resource.plural.clone(),
        subresource: request.subresource.to_owned(),
        namespace: request.namespace().to_owned(),
        name: request.name.to_owned(),
        path: String::new(),
    };
    if allows(server, request, &asked) {
        return Ok(());
    }
    let why = "cannot set an ownerRef on a resource you can't delete: , <nil>";
    Err(refusal(request, why))
}

fn may_finalize(server: &ApiServer, request: &Request<'_>, reference: &Value) -> Result<(), ApiError> {
    let (version, kind) = (object::text(reference, "apiVersion"), object::text(reference, "kind"));
    let Some(owner) = server.resource_of_kind(version, kind) else {
        let (shown_kind, shown_version) = (go_quote(kind), go_quote(version));
        let why = format!(
            "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for \
             APIVersion {version} Kind {kind}: no matches for kind {shown_kind} in version \
             {shown_version}"
        );
        return Err(refusal(request, &why));
    };
    let namespace = if owner.namespaced { request.namespace() } else { "" };
    let name = object::text(reference, "name");
    let asked = finalizers(&owner.group, &owner.plural, name, namespace);
    if allows(server, request, &asked) {
        return Ok(());
    }
    let why = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't \
               set finalizers on: , <nil>";
    Err(refusal(request, why))
}

fn finalizers(group: &str, resource: &str, name: &str, namespace: &str) -> Attributes {
    Attributes {
        is_resource: true,
        verb: "update".to_owned(),
        group: group.to_owned(),
        resource: resource.to_owned(),
        subresource: "finalizers".to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        path: String::new(),
    }
}

fn refusal(request: &Request<'_>, why: &str) -> ApiError {
    let resource = request.call.resource.group_resource();
    ApiError::forbidden(&resource, request.shown_name(), why)
}

#[cfg(test)]
mod tests {
    use aplomb_apimachinery::status::ApiError;
    use serde_json::{Value, json};

    use crate::ApiServer;
    use crate::call::{Call, PatchType, User, Verb};

    fn server() -> ApiServer {
        ApiServer::builder().rbac(true).check_owners(true).build()
    }

    fn owned(block: bool, kind: &str) -> Value {
        json!({ "metadata": { "name": "child", "ownerReferences": [{
            "apiVersion": "v1", "kind": kind, "name": "owner", "uid": "1",
            "blockOwnerDeletion": block,
        }] } })
    }

    /// As somebody the authorizer allows nothing: these calls are past authorization.
    async fn write(server: &ApiServer, verb: Verb, body: &Value) -> Result<(), ApiError> {
        let resource = server.resource("", "v1", "configmaps").expect("it is served");
        let mut call = Call::new(verb, resource).namespace("default");
        if verb == Verb::Patch {
            call = call.name("child").patch(PatchType::Merge);
        }
        call.user = User {
            name: "somebody".to_owned(),
            ..User::default()
        };
        let mut body = body.clone();
        body["apiVersion"] = "v1".into();
        body["kind"] = "ConfigMap".into();
        server.call(call.body(&body)).await.map(drop)
    }

    #[tokio::test]
    async fn a_creator_may_name_owners_but_not_hold_them_up() {
        let server = server();
        let refused = write(&server, Verb::Create, &owned(true, "Secret")).await;
        assert_eq!(
            refused.unwrap_err().message,
            "configmaps \"child\" is forbidden: cannot set blockOwnerDeletion if an \
             ownerReference refers to a resource you can't set finalizers on: , <nil>"
        );
        let refused = write(&server, Verb::Create, &owned(true, "Nothing")).await;
        let message = refused.unwrap_err().message;
        assert!(message.ends_with("no matches for kind \"Nothing\" in version \"v1\""));
        let made = write(&server, Verb::Create, &owned(false, "Secret")).await;
        assert_eq!(made, Ok(()));
    }

    #[tokio::test]
    async fn owners_change_only_by_those_who_may_delete() {
        let server = server();
        let made = write(&server, Verb::Create, &owned(false, "Secret")).await;
        assert_eq!(made, Ok(()));
        let edit = json!({ "data": { "a": "b" } });
        assert_eq!(write(&server, Verb::Patch, &edit).await, Ok(()));
        let refused = write(&server, Verb::Patch, &owned(false, "Pod")).await;
        let message = refused.unwrap_err().message;
        let why = "cannot set an ownerRef on a resource you can't delete: , <nil>";
        assert!(message.ends_with(why), "{message}");
    }

    #[tokio::test]
    async fn without_the_plugin_nobody_is_asked() {
        let server = ApiServer::builder().rbac(true).build();
        let made = write(&server, Verb::Create, &owned(true, "Secret")).await;
        assert_eq!(made, Ok(()));
    }
}
