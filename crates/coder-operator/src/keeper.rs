//! Keeps token Secrets: a Secret has a finalizer while a key or proxy can only be deleted with its
//! token, so that the deletion of a namespace does not remove the token first.
//!
//! The records of all objects decide for each Secret, whichever object the finalizer was added for:
//! an unneeded finalizer is removed, also after the operator was down.

use std::sync::Arc;

use aplomb::{Action, Context, Controller, ObjectKey, Predicate, Result, Scope, View};
use aplomb_api::coder::{CoderProvisioner, CoderWorkspaceProxy, ServerBinding, TOKEN_FINALIZER};
use k8s_openapi::api::core::v1::Secret;

use crate::ending::SELDOM;
use crate::office::CoderContext;
use crate::wiring::opaque;
use crate::{provisioner, proxy};

/// Also the field manager.
const NAME: &str = "aplomb-coder-secrets";
/// Index of objects by the Secrets that their records need.
const NEEDED: &str = "needed";

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
    .within(opaque(namespace))
    // Changes of finalizers and deletion pass any predicate.
    .lens(Predicate::comparing(|_, _| true))
    .silent()
    // Also if managedFields name another writer, as in a Secret restored from a backup.
    .finalizer(TOKEN_FINALIZER)
    .index::<CoderProvisioner>(scope.clone(), NEEDED, |it| names(&keys_of(it)))
    .index::<CoderWorkspaceProxy>(scope.clone(), NEEDED, |it| names(&proxies_of(it)))
    .watches::<CoderProvisioner>(
        scope.clone(),
        Predicate::comparing(|old, new| keys_of(old) == keys_of(new)),
        |object, _| keys_of(object),
    )
    .watches::<CoderWorkspaceProxy>(
        scope,
        Predicate::comparing(|old, new| proxies_of(old) == proxies_of(new)),
        |object, _| proxies_of(object),
    )
    .poked_by(&office.secrets, "record")
    .resync(SELDOM)
}

/// Whether a Secret has the finalizer.
pub(crate) fn is_held(secret: &Secret) -> bool {
    let all = secret.metadata.finalizers.iter().flatten();
    all.into_iter().any(|it| it == TOKEN_FINALIZER)
}

async fn reconcile(
    secret: &Arc<Secret>,
    cx: &Context<Secret>,
    office: &CoderContext,
) -> Result<Action> {
    let key = View::meta(&**secret).key();
    let name = key.to_string();
    let needed = !cx.cache::<CoderProvisioner>()?.by(NEEDED, &name).is_empty()
        || !cx
            .cache::<CoderWorkspaceProxy>()?
            .by(NEEDED, &name)
            .is_empty()
        || office.desk.is_wanted(&key);
    let going = secret.metadata.deletion_timestamp.is_some();
    match (needed, is_held(secret)) {
        (true, false) if !going => cx.finalizer(TOKEN_FINALIZER).await?,
        (false, true) => cx.release(TOKEN_FINALIZER).await?,
        _ => {}
    }
    Ok(Action::Settled)
}

fn names(secrets: &[ObjectKey]) -> Vec<String> {
    secrets.iter().map(ObjectKey::to_string).collect()
}

fn keys_of(object: &CoderProvisioner) -> Vec<ObjectKey> {
    let records = object.status.iter().flat_map(provisioner::observe::records);
    needed(
        object.metadata.namespace.as_deref(),
        records.map(|it| &it.binding),
    )
}

fn proxies_of(object: &CoderWorkspaceProxy) -> Vec<ObjectKey> {
    let bindings = object.status.iter().flat_map(proxy::observe::bindings);
    needed(object.metadata.namespace.as_deref(), bindings)
}

/// The Secrets that records need, each once.
fn needed<'a>(
    namespace: Option<&str>,
    records: impl Iterator<Item = &'a ServerBinding>,
) -> Vec<ObjectKey> {
    let names = records.map(|it| &it.token_secret_ref.name);
    let mut all: Vec<_> = names.map(|name| ObjectKey::new(namespace, name)).collect();
    all.sort();
    all.dedup();
    all
}
