//! The words: each condition, from what was decided. The same world gives the same words; nothing here
//! counts attempts or names a time that moves.

use aplomb::Condition;
use aplomb::conditions::{ConditionStatus, RECONCILING};
use aplomb_api::coder::{conditions as kinds, reasons};

use super::plan_builder::{Draft, Stop};
use super::{key, secret_ref};
use crate::client::CallErrorClass;
use crate::ending::rate_limit_message;
use crate::hindrance::Blocked;
use crate::provisioner::world::Observed;
use crate::conditions::{SECRET_NOT_KEPT, access_condition, server_condition};
use crate::children_state::SecretState;

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
        Some(Stop::NotEntitled) => Some(Condition::no(
            kind,
            reasons::NOT_ENTITLED,
            "the server's licence has no external provisioners; asked again every 10 minutes",
        )),
        Some(Stop::NotSupported) => Some(Condition::no(
            kind,
            reasons::NOT_SUPPORTED,
            "the server knows no licences: external provisioners need one that does",
        )),
        _ if draft.entitlement_refusal.is_some() => unknown_license(kind, draft.entitlement_refusal?),
        _ if draft.entitled => Some(Condition::yes(
            kind,
            reasons::ENTITLED,
            "the server's licence has external provisioners",
        )),
        _ => None,
    }
}

fn organization_message(world: &Observed) -> String {
    format!(
        "the server shows this token no organisation called {}: correct spec.organizationName, or give the \
         token's user a role in it",
        world.object.spec.organization_name
    )
}

/// What is said where the server did not say what its licence allows.
fn unknown_license(kind: &str, class: CallErrorClass) -> Option<Condition> {
    match class {
        // The licence is asked for without a token, but not while the token is rejected.
        CallErrorClass::Token => Some(Condition::no(
            kind,
            reasons::FORBIDDEN,
            "the licence is not known while the server rejects the token",
        )),
        CallErrorClass::Forbidden => Some(Condition::no(
            kind,
            reasons::FORBIDDEN,
            "the server refuses to tell what its licence allows",
        )),
        // It says nothing about the licence, and what was said of it stays.
        CallErrorClass::Limited => None,
        _ => Some(Condition::unknown(
            kind,
            reasons::QUERY_FAILED,
            "the server did not tell what its licence allows; it is asked again",
        )),
    }
}

/// Whether there is a key that works. It stays so whatever becomes of a call.
fn key_ready_condition(world: &Observed, draft: &Draft, stop: Option<&Stop>) -> Condition {
    let kind = kinds::KEY_READY;
    let working = draft.status.key.as_ref();
    if let Some(key) = working.filter(|key| key::secret_holds(world, &key.name)) {
        let story = format!("the key {} is in use", key.name);
        return Condition::yes(kind, reasons::KEY_READY, story);
    }
    if let Some(limited) = &draft.status.rate_limited {
        return Condition::no(
            kind,
            reasons::RATE_LIMITED,
            rate_limit_message(&limited.endpoint),
        );
    }
    let no = |reason: &str, story: &str| Condition::no(kind, reason, story);
    match stop {
        Some(Stop::Rejected { reason, message }) => no(reason, message),
        Some(Stop::NoOrganization) => no(reasons::ORGANIZATION_NOT_FOUND, &organization_message(world)),
        Some(Stop::Blocked(Blocked::Later { .. })) => no(
            reasons::WAITING_FOR_BUDGET,
            "its calls wait for their turn within the server's rate limit",
        ),
        Some(Stop::Blocked(Blocked::Refused(error))) => match error.class {
            CallErrorClass::Server | CallErrorClass::NoAnswer => no(
                reasons::KEY_PENDING,
                "the server does not answer as it should; it is asked again",
            ),
            _ => no(reasons::KEY_FAILED, &error.to_string()),
        },
        Some(Stop::NoAccess) => no(reasons::KEY_PENDING, "there is no access to the server"),
        Some(Stop::NotEntitled | Stop::NotSupported) => {
            no(reasons::KEY_PENDING, "the server's licence allows none")
        }
        Some(Stop::Deleting(story)) => no(reasons::DELETING, story),
        Some(Stop::SecretNotKept) => no(reasons::KEY_PENDING, SECRET_NOT_KEPT),
        None => no(reasons::KEY_PENDING, "a key is about to be made"),
    }
}

fn secret_condition(world: &Observed, draft: &Draft) -> Option<Condition> {
    let kind = kinds::KEY_SECRET_READY;
    let name = secret_ref(&world.object).name;
    if let SecretState::Foreign(whose) = &world.secret {
        return Some(Condition::no(kind, reasons::SECRET_NOT_OURS, &**whose));
    }
    let key = draft.status.key.as_ref()?;
    Some(match key::secret_holds(world, &key.name) {
        true => Condition::yes(
            kind,
            reasons::SECRET_READY,
            format!("the key is in the Secret {name}"),
        ),
        false => Condition::no(
            kind,
            reasons::SECRET_PENDING,
            format!("the Secret {name} does not hold the key in use: a new one is made"),
        ),
    })
}

fn deployment_condition(world: &Observed, stop: Option<&Stop>) -> Option<Condition> {
    let kind = kinds::DEPLOYMENT_READY;
    if let Some(Stop::Rejected { reason, message }) = stop
        && *reason == reasons::IMAGE_MISSING
    {
        return Some(Condition::no(kind, reason, &**message));
    }
    let seen = world.deployment.as_ref()?;
    Some(match (seen.ready, world.object.spec.replicas) {
        (_, 0) => Condition::yes(kind, reasons::SCALED_TO_ZERO, "no pods are asked for"),
        (1.., _) => Condition::yes(kind, reasons::REPLICAS_READY, "at least one pod is ready"),
        _ => Condition::no(kind, reasons::NO_REPLICAS_READY, "no pod is ready"),
    })
}

fn daemons_condition(world: &Observed, draft: &Draft) -> Option<Condition> {
    let kind = kinds::DAEMONS_CONNECTED;
    let wanted = u32::try_from(world.object.spec.replicas).unwrap_or(0);
    let serving = draft.serving?;
    let story = format!("the server sees {serving} of {wanted} connected");
    Some(match serving {
        _ if serving >= wanted => Condition::yes(
            kind,
            reasons::ALL_CONNECTED,
            "the server sees all connected with a key that works",
        ),
        0 => Condition::no(kind, reasons::NONE_CONNECTED, story),
        _ => Condition::no(kind, reasons::SOME_CONNECTED, story),
    })
}

/// Ready is what the server itself says of the daemons; it is lowered by what is known, and left as it is
/// by what could not be asked.
fn ready_condition(
    world: &Observed,
    draft: &Draft,
    said: &[Condition],
    stop: Option<&Stop>,
) -> Option<Condition> {
    let kind = kinds::READY;
    if world.object.metadata.deletion_timestamp.is_some() {
        let story = match stop {
            Some(Stop::Deleting(story)) => story,
            _ => "its keys are deleted at the server before it goes",
        };
        return Some(Condition::no(kind, reasons::DELETING, story));
    }
    if let Err(denied) = &world.access {
        return Some(Condition::no(kind, denied.reason, &*denied.message));
    }
    if matches!(stop, Some(Stop::NoOrganization)) {
        let story = organization_message(world);
        return Some(Condition::no(kind, reasons::ORGANIZATION_NOT_FOUND, story));
    }
    let lowers =
        |it: &&Condition| it.kind != kinds::DEPLOYMENT_READY && it.status == ConditionStatus::False;
    // A server that does not answer is why a key is missing, and no more than a doubt where there is one.
    let works = said
        .iter()
        .any(|it| it.kind == kinds::KEY_READY && it.status == ConditionStatus::True);
    let worst = said
        .iter()
        .filter(lowers)
        .find(|it| !works || it.kind != kinds::CONTROL_PLANE_READY);
    if let Some(worst) = worst {
        return Some(Condition::no(kind, &worst.reason, &*worst.message));
    }
    match (draft.connected, stop) {
        (Some(_), None | Some(Stop::Blocked(_))) => Some(Condition::yes(
            kind,
            reasons::PROVEN,
            "the server sees every daemon connected with a key that works",
        )),
        _ if draft.blocked.is_empty() => None,
        _ => {
            let silent = said.iter().find(|it| {
                it.kind == kinds::CONTROL_PLANE_READY && it.status == ConditionStatus::False
            });
            let reason = silent.map_or(reasons::STALE, |it| &it.reason);
            let story = "the server could not be asked for its daemons";
            Some(Condition::unknown(kind, reason, story))
        }
    }
}

fn progress_condition(draft: &Draft, stop: Option<&Stop>) -> Option<Condition> {
    let under_way = draft.status.pending.is_some() || !draft.status.retiring.is_empty();
    let waiting = matches!(stop, Some(Stop::Blocked(it)) if it.is_transient());
    (under_way || waiting).then(|| {
        let story = "a key is being made or replaced, or the server is waited for";
        Condition::yes(RECONCILING, "Progressing", story)
    })
}
