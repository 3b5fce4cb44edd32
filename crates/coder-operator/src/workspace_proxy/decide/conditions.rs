//! What is said of an object, from where its course ended. The same world gives the same words: nothing
//! here counts attempts or names a time that moves.

use aplomb::Condition;
use aplomb::conditions::RECONCILING;
use aplomb_api::coder::{conditions as kinds, reasons};

use super::plan_builder::{Draft, Stop};
use super::{has_stored_token, secret_ref};
use crate::blocked::{Blocked, rate_limit_message};
use crate::children_state::SecretState;
use crate::client::CallErrorClass;
use crate::conditions::{SECRET_NOT_KEPT, access_condition, server_condition};
use crate::workspace_proxy::Observed;

pub(super) fn build_conditions(world: &Observed, draft: &Draft, stop: Option<&Stop>) -> Vec<Condition> {
    let mut all = Vec::new();
    if let Some(access_to) = &world.access {
        all.extend(server_condition(access_to, &draft.blocked));
        all.extend(access_condition(access_to, &draft.blocked));
        all.extend(entitled_condition(draft, stop));
        all.push(registered_condition(world, draft, stop));
    }
    all.extend(secret_condition(world, draft));
    all.extend(deployment_condition(world, stop));
    all.extend(health_condition(world, draft));
    all.extend(ready_condition(world, draft, &all, stop));
    all.extend(progress_condition(draft, stop));
    all
}

fn entitled_condition(draft: &Draft, stop: Option<&Stop>) -> Option<Condition> {
    let kind = kinds::PROXY_ENTITLED;
    match stop {
        Some(Stop::NotEntitled) => Some(Condition::new_false(
            kind,
            reasons::NOT_ENTITLED,
            "the server's license has no workspace proxies; checking again every 10 minutes",
        )),
        Some(Stop::NotSupported) => Some(Condition::new_false(
            kind,
            reasons::NOT_SUPPORTED,
            "the server has no licensing; workspace proxies need a licensed version of Coder",
        )),
        _ if draft.entitled => Some(Condition::new_true(
            kind,
            reasons::ENTITLED,
            "the server's license includes workspace proxies",
        )),
        _ => None,
    }
}

/// Whether the server knows the proxy. It stays so whatever becomes of a call.
fn registered_condition(world: &Observed, draft: &Draft, stop: Option<&Stop>) -> Condition {
    let kind = kinds::REGISTERED;
    let no = |reason: &str, story: &str| Condition::new_false(kind, reason, story);
    if let Some(Stop::Deleting(story)) = stop {
        return no(reasons::DELETING, story);
    }
    if let Some(current) = draft.current() {
        let story = format!("proxy {} is registered on the server", current.name);
        return Condition::new_true(kind, reasons::REGISTERED, story);
    }
    if let Some(limited) = &draft.status.rate_limited {
        return no(reasons::RATE_LIMITED, &rate_limit_message(&limited.endpoint));
    }
    match stop {
        Some(Stop::Rejected { reason, message }) => no(reason, message),
        Some(Stop::FormerServer(story)) => no(reasons::NOT_REGISTERED, story),
        Some(Stop::Blocked(Blocked::Later { .. })) => no(
            reasons::WAITING_FOR_BUDGET,
            "calls are queued behind the server's rate limit",
        ),
        Some(Stop::Blocked(Blocked::Refused(error))) => match error.class {
            CallErrorClass::Server | CallErrorClass::NoAnswer => no(
                reasons::NOT_REGISTERED,
                "the server does not respond correctly; will retry",
            ),
            _ => no(reasons::REGISTRATION_FAILED, &error.to_string()),
        },
        Some(Stop::NotEntitled | Stop::NotSupported) => {
            no(reasons::NOT_REGISTERED, "the server's license has no workspace proxies")
        }
        Some(Stop::SecretNotKept) => no(reasons::NOT_REGISTERED, SECRET_NOT_KEPT),
        _ if !matches!(world.access, Some(Ok(_))) => no(reasons::NOT_REGISTERED, "no access to the server"),
        _ => no(reasons::NOT_REGISTERED, "registering the proxy"),
    }
}

fn secret_condition(world: &Observed, draft: &Draft) -> Option<Condition> {
    let kind = kinds::TOKEN_SECRET_READY;
    let name = secret_ref(&world.object).name;
    let yes = || {
        let story = format!("the token is in Secret {name}");
        Condition::new_true(kind, reasons::SECRET_READY, story)
    };
    if let SecretState::Foreign(whose) = &world.secret {
        return Some(Condition::new_false(kind, reasons::SECRET_NOT_OURS, &**whose));
    }
    if world.access.is_none() {
        return Some(match &world.secret {
            SecretState::Owned { intact: true, .. } => yes(),
            _ => Condition::new_false(
                kind,
                reasons::SECRET_PENDING,
                format!(
                    "Secret {name} of type Opaque with the proxy's token in key {} does not exist: \
                     create it",
                    secret_ref(&world.object).key
                ),
            ),
        });
    }
    let current = draft.current()?;
    Some(match has_stored_token(world, &current) {
        true => yes(),
        false => Condition::new_false(
            kind,
            reasons::SECRET_PENDING,
            format!("Secret {name} does not have the proxy's token; creating a new token"),
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

fn health_condition(world: &Observed, draft: &Draft) -> Option<Condition> {
    let kind = kinds::PROXY_HEALTHY;
    let healthy = draft.healthy?;
    Some(match healthy {
        true => Condition::new_true(kind, reasons::HEALTHY, "the server reports the proxy as healthy"),
        false if world.object.spec.replicas == 0 => {
            Condition::new_false(kind, reasons::SCALED_TO_ZERO, "spec.replicas is 0")
        }
        false => Condition::new_false(
            kind,
            reasons::UNHEALTHY,
            "the server has not reached the proxy yet; check the pods and their network",
        ),
    })
}

/// Ready is what the server itself says of the proxy; it is lowered by what is known, and left as it is by
/// what could not be asked.
fn ready_condition(world: &Observed, draft: &Draft, said: &[Condition], stop: Option<&Stop>) -> Option<Condition> {
    let kind = kinds::READY;
    match stop {
        Some(Stop::Deleting(story)) => {
            return Some(Condition::new_false(kind, reasons::DELETING, &**story));
        }
        Some(Stop::Rejected { reason, message }) => {
            return Some(Condition::new_false(kind, reason, &**message));
        }
        _ => {}
    }
    if let Some(Err(denied)) = &world.access {
        return Some(Condition::new_false(kind, denied.reason, &*denied.message));
    }
    if let Some(worst) = first_failing(world, draft, said) {
        return Some(Condition::new_false(kind, &worst.reason, &*worst.message));
    }
    match stop {
        None if is_serving(world, draft) => Some(Condition::new_true(
            kind,
            reasons::PROVEN,
            "the proxy has its token and is healthy",
        )),
        None if world.access.is_none() => Some(Condition::new_false(
            kind,
            reasons::NO_REPLICAS_READY,
            "not all pods are ready",
        )),
        _ if draft.blocked.is_empty() => None,
        _ => Some(unknown_condition(said)),
    }
}

/// The first of what is known to be wrong.
fn first_failing<'a>(world: &Observed, draft: &Draft, said: &'a [Condition]) -> Option<&'a Condition> {
    // A server that does not answer is why a token is missing, and no more than a doubt where there is one.
    let works = draft.current().is_some_and(|it| has_stored_token(world, &it));
    let counts = |it: &&Condition| match &*it.type_ {
        kinds::CONTROL_PLANE_READY => !works,
        kinds::DEPLOYMENT_READY => world.access.is_none(),
        kinds::PROXY_HEALTHY => world.object.spec.replicas != 0,
        _ => true,
    };
    let mut counted = said.iter().filter(counts);
    counted.find(|it| it.status.as_str() == "False")
}

/// Whether it serves, as the server sees it, or else as the pods do.
fn is_serving(world: &Observed, draft: &Draft) -> bool {
    let replicas = world.object.spec.replicas;
    match &world.access {
        Some(_) => draft.healthy == Some(true) || (replicas == 0 && draft.current().is_some()),
        None => world.deployment.as_ref().is_some_and(|it| it.ready >= replicas),
    }
}

/// The state is unknown, for the server's reason if it gave one.
fn unknown_condition(said: &[Condition]) -> Condition {
    let server = said.iter().find(|it| it.type_ == kinds::CONTROL_PLANE_READY);
    let silent = server.filter(|it| it.status.as_str() == "False");
    let reason = silent.map_or(reasons::STALE, |it| &it.reason);
    let story = "cannot read the proxy from the server; will retry";
    Condition::new_unknown(kinds::READY, reason, story)
}

fn progress_condition(draft: &Draft, stop: Option<&Stop>) -> Option<Condition> {
    let under_way = draft.status.pending.is_some() || !draft.status.retiring.is_empty();
    let waiting = matches!(stop, Some(Stop::Blocked(it)) if it.is_transient());
    (under_way || waiting).then(|| {
        let story = "registering or replacing the proxy, or waiting for the server";
        Condition::new_true(RECONCILING, "Progressing", story)
    })
}
