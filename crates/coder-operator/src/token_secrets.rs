//! Keeps token Secrets: a Secret has a finalizer while a key or proxy can only be deleted with its
//! token, so that the deletion of a namespace does not remove the token first.
//!
//! The records of all objects decide for each Secret, whichever object the finalizer was added for:
//! an unneeded finalizer is removed, also after the operator was down.

use std::sync::Arc;

use aplomb::{Action, Context, Controller, Kind, ObjectKey, Predicate, Result, Scope, View};
use aplomb_api::coder::{CoderProvisioner, CoderWorkspaceProxy, ServerBinding, TOKEN_FINALIZER};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;

use crate::access::Access;
use crate::blocked::PERMANENT_RETRY;
use crate::context::CoderContext;
use crate::watches::opaque_secrets;
use crate::{provisioner, workspace_proxy};

/// Also the field manager.
const NAME: &str = "aplomb-coder-secrets";
/// Index of objects by the Secrets that their records need.
const INDEX_NEEDED: &str = "needed";

/// The controller of token Secrets.
pub(crate) fn controller(office: &CoderContext) -> Controller<Secret> {
    let run = office.clone();
    let namespace = office.namespace.as_deref();
    let scope = Scope {
        namespace: namespace.map(str::to_owned),
        ..Scope::default()
    };
    Controller::new(NAME, move |secret, cx| {
        let office = run.clone();
        async move { reconcile(&secret, &cx, &office).await }
    })
    .in_scope(opaque_secrets(namespace))
    // Changes of finalizers and deletion pass any predicate.
    .predicate(Predicate::unless_same(|_, _| true))
    .without_status()
    // Also if managedFields name another writer, as in a Secret restored from a backup.
    .finalizer(TOKEN_FINALIZER)
    .index::<CoderProvisioner>(scope.clone(), INDEX_NEEDED, |it| index_keys(&provisioner_secrets(it)))
    .index::<CoderWorkspaceProxy>(scope.clone(), INDEX_NEEDED, |it| index_keys(&proxy_secrets(it)))
    .watches::<CoderProvisioner>(
        scope.clone(),
        Predicate::unless_same(|old, new| provisioner_secrets(old) == provisioner_secrets(new)),
        |object, _| provisioner_secrets(object),
    )
    .watches::<CoderWorkspaceProxy>(
        scope,
        Predicate::unless_same(|old, new| proxy_secrets(old) == proxy_secrets(new)),
        |object, _| proxy_secrets(object),
    )
    .triggered_by(&office.secrets, "record")
    .resync(PERMANENT_RETRY)
}

fn has_finalizer(secret: &Secret) -> bool {
    secret.finalizers().iter().any(|it| it == TOKEN_FINALIZER)
}

/// Whether the Secret with the current token has the finalizer.
pub(crate) fn is_secret_kept<K: Kind>(cx: &Context<K>, namespace: &str, access: Option<&Access>) -> Result<bool> {
    let secrets = cx.cache::<Secret>()?;
    let name = access.map(|it| &*it.binding.token_secret_ref.name);
    let found = name.and_then(|it| secrets.get(&ObjectKey::new(Some(namespace), it)));
    Ok(found.is_some_and(|it| has_finalizer(&it)))
}

async fn reconcile(secret: &Arc<Secret>, cx: &Context<Secret>, office: &CoderContext) -> Result<Action> {
    let key = View::meta(&**secret).key();
    let name = key.to_string();
    let needed = !cx.cache::<CoderProvisioner>()?.by_index(INDEX_NEEDED, &name).is_empty()
        || !cx
            .cache::<CoderWorkspaceProxy>()?
            .by_index(INDEX_NEEDED, &name)
            .is_empty()
        || office.states.is_secret_requested(&key);
    let going = secret.metadata.deletion_timestamp.is_some();
    match (needed, has_finalizer(secret)) {
        (true, false) if !going => cx.add_finalizer(TOKEN_FINALIZER).await?,
        (false, true) => cx.remove_finalizer(TOKEN_FINALIZER).await?,
        _ => {}
    }
    Ok(Action::Done)
}

fn index_keys(secrets: &[ObjectKey]) -> Vec<String> {
    secrets.iter().map(ObjectKey::to_string).collect()
}

fn provisioner_secrets(object: &CoderProvisioner) -> Vec<ObjectKey> {
    let records = object.status.iter().flat_map(provisioner::observe::key_records);
    needed_secrets(object.metadata.namespace.as_deref(), records.map(|it| &it.binding))
}

fn proxy_secrets(object: &CoderWorkspaceProxy) -> Vec<ObjectKey> {
    let bindings = object.status.iter().flat_map(workspace_proxy::observe::bindings);
    needed_secrets(object.metadata.namespace.as_deref(), bindings)
}

/// The Secrets that records need, each once.
fn needed_secrets<'a>(namespace: Option<&str>, records: impl Iterator<Item = &'a ServerBinding>) -> Vec<ObjectKey> {
    let names = records.map(|it| &it.token_secret_ref.name);
    let mut all: Vec<_> = names.map(|name| ObjectKey::new(namespace, name)).collect();
    all.sort();
    all.dedup();
    all
}
