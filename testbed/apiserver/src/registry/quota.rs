//! Quotas at work: the last to be asked before a write, and charged before it is stored.
//!
//! How much an object uses is in `kinds::usage`; numbers that nobody charges are brought up to date
//! by a controller. A namespace without quotas costs one look.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock, MutexGuard};

use aplomb_apimachinery::object;
use aplomb_apimachinery::status::{ApiError, GroupResource};
use aplomb_builtin_kinds::usage::{Charge, Evaluator, QuotaRequest, QuotaSurroundings, charged};
use serde_json::Value;

use super::{admission, update};
use crate::call::{Call, Verb};
use crate::server::ApiServer;

/// How often a quota that somebody else has changed meanwhile is looked at again.
const RETRIES: usize = 3;

static QUOTAS: LazyLock<GroupResource> = LazyLock::new(|| GroupResource::new("", "resourcequotas"));

/// What was charged is not counted by anybody until this is dropped, after the write.
pub(super) type Charged<'a> = Option<MutexGuard<'a, ()>>;

/// Finds what quotas are to be charged.
type Find<'a> = dyn Fn(&[Arc<Value>]) -> Result<Vec<Charge>, ApiError> + 'a;

/// Charges the quotas of a namespace for what a write adds; a dry run only asks.
///
/// # Errors
/// The server's answer to what does not fit.
pub(super) fn charge<'a>(
    server: &'a ApiServer,
    call: &Call,
    asked: &QuotaRequest<'_>,
) -> Result<Charged<'a>, ApiError> {
    let namespaced = call.resource.namespaced;
    let Some(namespace) = call.namespace.as_deref().filter(|_| namespaced) else {
        return Ok(None);
    };
    if server.store().within(&QUOTAS, namespace).is_empty() {
        return Ok(None);
    }
    let resource = call.resource.group_resource();
    let evaluator = Evaluator::of(&resource).filter(|it| it.handles(asked));
    let Some(evaluator) = evaluator else {
        return Ok(None);
    };
    let alone = server.charging();
    let peers = admission::peers(server, Some(namespace));
    let around = QuotaSurroundings {
        peers: &peers,
        now: server.clock().now(),
    };
    let find = |quotas: &[Arc<Value>]| {
        charged(&evaluator, asked, quotas, &around)
            .map_err(|why| ApiError::forbidden(&resource, object::name(asked.object), &why))
    };
    let quotas = server.store().within(&QUOTAS, namespace);
    let charges = find(&quotas)?;
    if !call.options.dry_run {
        write_all(server, namespace, charges, &find)?;
    }
    Ok(Some(alone))
}

/// Writes what is used; where somebody else was faster, asks those quotas again.
fn write_all(server: &ApiServer, namespace: &str, mut charges: Vec<Charge>, find: &Find<'_>) -> Result<(), ApiError> {
    let mut attempt = 0;
    loop {
        let (mut lost, mut last) = (BTreeSet::new(), Ok(()));
        for charge in &charges {
            if let Err(error) = write(server, namespace, charge) {
                lost.insert(object::name(&charge.quota).to_owned());
                last = Err(error);
            }
        }
        if lost.is_empty() || attempt == RETRIES {
            return last;
        }
        let mut again = server.store().within(&QUOTAS, namespace);
        again.retain(|quota| lost.contains(object::name(quota)));
        charges = find(&again)?;
        attempt += 1;
    }
}

/// Writes what is used of one quota, as the server itself.
fn write(server: &ApiServer, namespace: &str, charge: &Charge) -> Result<(), ApiError> {
    let missing = || ApiError::not_found(&QUOTAS, object::name(&charge.quota));
    let quotas = server.any_version("", "resourcequotas").ok_or_else(missing)?;
    let mut quota = Value::clone(&charge.quota);
    quota["apiVersion"] = quotas.api_version().into();
    quota["kind"] = quotas.kind.as_str().into();
    quota["status"]["used"] = charge.used.clone();
    let mut call = Call::new(Verb::Update, quotas)
        .namespace(namespace)
        .name(object::name(&charge.quota))
        .body(&quota)
        .status();
    "kube-apiserver".clone_into(&mut call.user_agent);
    update::update(server, &call).map(drop)
}
