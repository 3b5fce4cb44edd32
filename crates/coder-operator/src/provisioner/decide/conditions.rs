//! The words: each condition, from what was decided. The same world gives the same words; nothing here
//! counts attempts or names a time that moves.

use aplomb::Condition;
use aplomb::conditions::{ConditionStatus, RECONCILING};
use aplomb_api::coder::{conditions as kinds, reasons};

use super::plan_builder::{Draft, Stop};
use super::{key, secret_ref};
use crate::blocked::{Blocked, rate_limit_message};
use crate::children_state::SecretState;
use crate::client::CallErrorClass;
use crate::conditions::{SECRET_NOT_KEPT, access_condition, server_condition};
use crate::provisioner::Observed;

/// Every condition that this decision has something to say of.
pub(super) fn build_conditions(world: &Observed, draft: &Draft, stop: Option<&Stop>) -> Vec<Condition> {
    let mut all = Vec::new();
    all.extend(server_condition(&world.access, &draft.blocked));
    all.extend(access_condition(&world.access, &draft.blocked));
    all.extend(entitled_condition(draft, stop));
    all.push(key_ready_condition(world, draft, stop));
    all.extend(secret_condition(world, draft));
    all.extend(deployment_condition(world, stop));
    all.extend(daemons_condition(world, draft));
    all.extend(ready_condition(world, draft, &all, stop));
    all.extend(progress_condition(draft, stop));
    all
}

fn entitled_condition(draft: &Draft, stop: Option<&Stop>) -> Option<Condition> {
    let kind = kinds::ENTITLED;
    match stop {
        Some(Stop::NotEntitled) => Some(Condition::new_false(
            kind,
            reasons::NOT_ENTITLED,
            "the server's license has no external provisioners; checking again every 10 minutes",
        )),
        Some(Stop::NotSupported) => Some(Condition::new_false(
            kind,
            reasons::NOT_SUPPORTED,
            "the server has no licensing; external provisioners need a licensed version of Coder",
        )),
        _ if draft.entitlement_refusal.is_some() => unknown_license(kind, draft.entitlement_refusal?),
        _ if draft.entitled => Some(Condition::new_true(
            kind,
            reasons::ENTITLED,
            "the server's license includes external provisioners",
        )),
        _ => None,
    }
}

fn organization_message(world: &Observed) -> String {
    format!(
        "organization {} not found: correct spec.organizationName, or give the token's user a role \
         in it",
        world.object.spec.organization_name
    )
}

/// What is said where the server did not say what its license allows.
fn unknown_license(kind: &str, class: CallErrorClass) -> Option<Condition> {
    match class {
        // The license is asked for without a token, but not while the token is rejected.
        CallErrorClass::Token => Some(Condition::new_false(
            kind,
            reasons::FORBIDDEN,
            "the license is not known while the server rejects the token",
        )),
        CallErrorClass::Forbidden => Some(Condition::new_false(
            kind,
            reasons::FORBIDDEN,
            "the server refuses to show its license; check the permissions of the token's user",
        )),
        // It says nothing about the license, and what was said of it stays.
        CallErrorClass::Limited => None,
        _ => Some(Condition::new_unknown(
            kind,
            reasons::QUERY_FAILED,
            "cannot read the server's license; will retry",
        )),
    }
}

/// Whether there is a key that works. It stays so whatever becomes of a call.
fn key_ready_condition(world: &Observed, draft: &Draft, stop: Option<&Stop>) -> Condition {
    let kind = kinds::KEY_READY;
    let working = draft.status.key.as_ref();
    if let Some(key) = working.filter(|key| key::secret_holds(world, &key.name)) {
        let story = format!("key {} is in use", key.name);
        return Condition::new_true(kind, reasons::KEY_READY, story);
    }
    if let Some(limited) = &draft.status.rate_limited {
        return Condition::new_false(kind, reasons::RATE_LIMITED, rate_limit_message(&limited.endpoint));
    }
    let no = |reason: &str, story: &str| Condition::new_false(kind, reason, story);
    match stop {
        Some(Stop::Rejected { reason, message }) => no(reason, message),
        Some(Stop::NoOrganization) => no(reasons::ORGANIZATION_NOT_FOUND, &organization_message(world)),
        Some(Stop::Blocked(Blocked::Later { .. })) => no(
            reasons::WAITING_FOR_BUDGET,
            "calls are queued behind the server's rate limit",
        ),
        Some(Stop::Blocked(Blocked::Refused(error))) => match error.class {
            CallErrorClass::Server | CallErrorClass::NoAnswer => no(
                reasons::KEY_PENDING,
                "the server does not respond correctly; will retry",
            ),
            _ => no(reasons::KEY_FAILED, &error.to_string()),
        },
        Some(Stop::NoAccess) => no(reasons::KEY_PENDING, "no access to the server"),
        Some(Stop::NotEntitled | Stop::NotSupported) => no(
            reasons::KEY_PENDING,
            "the server's license has no external provisioners",
        ),
        Some(Stop::Deleting(story)) => no(reasons::DELETING, story),
        Some(Stop::SecretNotKept) => no(reasons::KEY_PENDING, SECRET_NOT_KEPT),
        None => no(reasons::KEY_PENDING, "creating a key"),
    }
}

fn secret_condition(world: &Observed, draft: &Draft) -> Option<Condition> {
    let kind = kinds::KEY_SECRET_READY;
    let name = secret_ref(&world.object).name;
    if let SecretState::Foreign(whose) = &world.secret {
        return Some(Condition::new_false(kind, reasons::SECRET_NOT_OURS, &**whose));
    }
    let key = draft.status.key.as_ref()?;
    Some(match key::secret_holds(world, &key.name) {
        true => Condition::new_true(kind, reasons::SECRET_READY, format!("the key is in Secret {name}")),
        false => Condition::new_false(
            kind,
            reasons::SECRET_PENDING,
            format!("Secret {name} does not have the key in use; creating a new key"),
        ),
    })
}

fn deployment_condition(world: &Observed, stop: Option<&Stop>) -> Option<Condition> {
    let kind = kinds::DEPLOYMENT_READY;
    if let Some(Stop::Rejected { reason, message }) = stop
        && *reason == reasons::IMAGE_MISSING
    {
        return Some(Condition::new_false(kind, reason, &**message));
    }
    let seen = world.deployment.as_ref()?;
    Some(match (seen.ready, world.object.spec.replicas) {
        (_, 0) => Condition::new_true(kind, reasons::SCALED_TO_ZERO, "spec.replicas is 0"),
        (1.., _) => Condition::new_true(kind, reasons::REPLICAS_READY, "at least one pod is ready"),
        _ => Condition::new_false(kind, reasons::NO_REPLICAS_READY, "no pod is ready"),
    })
}

fn daemons_condition(world: &Observed, draft: &Draft) -> Option<Condition> {
    let kind = kinds::DAEMONS_CONNECTED;
    let wanted = u32::try_from(world.object.spec.replicas).unwrap_or(0);
    let serving = draft.serving?;
    let story = format!("{serving} of {wanted} daemons are connected to the server");
    Some(match serving {
        _ if serving >= wanted => Condition::new_true(
            kind,
            reasons::ALL_CONNECTED,
            "all daemons are connected to the server with a valid key",
        ),
        0 => Condition::new_false(kind, reasons::NONE_CONNECTED, story),
        _ => Condition::new_false(kind, reasons::SOME_CONNECTED, story),
    })
}

/// Ready is what the server itself says of the daemons; it is lowered by what is known, and left as it is
/// by what could not be asked.
fn ready_condition(world: &Observed, draft: &Draft, said: &[Condition], stop: Option<&Stop>) -> Option<Condition> {
    let kind = kinds::READY;
    if world.object.metadata.deletion_timestamp.is_some() {
        let story = match stop {
            Some(Stop::Deleting(story)) => story,
            _ => "deleting its keys from the server",
        };
        return Some(Condition::new_false(kind, reasons::DELETING, story));
    }
    if let Err(denied) = &world.access {
        return Some(Condition::new_false(kind, denied.reason, &*denied.message));
    }
    if matches!(stop, Some(Stop::NoOrganization)) {
        let story = organization_message(world);
        return Some(Condition::new_false(kind, reasons::ORGANIZATION_NOT_FOUND, story));
    }
    let lowers = |it: &&Condition| it.type_ != kinds::DEPLOYMENT_READY && it.status == ConditionStatus::False;
    // A server that does not answer is why a key is missing, and no more than a doubt where there is one.
    let works = said
        .iter()
        .any(|it| it.type_ == kinds::KEY_READY && it.status == ConditionStatus::True);
    let worst = said
        .iter()
        .filter(lowers)
        .find(|it| !works || it.type_ != kinds::CONTROL_PLANE_READY);
    if let Some(worst) = worst {
        return Some(Condition::new_false(kind, &worst.reason, &*worst.message));
    }
    match (draft.connected, stop) {
        (Some(_), None | Some(Stop::Blocked(_))) => Some(Condition::new_true(
            kind,
            reasons::PROVEN,
            "all daemons are connected to the server with a valid key",
        )),
        _ if draft.blocked.is_empty() => None,
        _ => {
            let silent = said
                .iter()
                .find(|it| it.type_ == kinds::CONTROL_PLANE_READY && it.status == ConditionStatus::False);
            let reason = silent.map_or(reasons::STALE, |it| &it.reason);
            let story = "cannot read the connected daemons from the server; will retry";
            Some(Condition::new_unknown(kind, reason, story))
        }
    }
}

fn progress_condition(draft: &Draft, stop: Option<&Stop>) -> Option<Condition> {
    let under_way = draft.status.pending.is_some() || !draft.status.retiring.is_empty();
    let waiting = matches!(stop, Some(Stop::Blocked(it)) if it.is_transient());
    (under_way || waiting).then(|| {
        let story = "creating or replacing a key, or waiting for the server";
        Condition::new_true(RECONCILING, "Progressing", story)
    })
}
