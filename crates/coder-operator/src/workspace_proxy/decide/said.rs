//! What is said of an object, from where its course ended. The same world gives the same words: nothing
//! here counts attempts or names a time that moves.

use aplomb::Condition;
use aplomb::conditions::RECONCILING;
use aplomb_api::coder::{conditions as kinds, reasons};

use super::draft::{Draft, Stop};
use super::{secret_ref, has_stored_token};
use crate::client::CallErrorClass;
use crate::ending::rate_limit_message;
use crate::hindrance::Blocked;
use crate::workspace_proxy::world::Observed;
use crate::conditions::{SECRET_NOT_KEPT, access_condition, server_condition};
use crate::children_state::SecretState;

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
        Some(Stop::NotEntitled) => Some(Condition::no(
            kind,
            reasons::NOT_ENTITLED,
            "the server's licence has no workspace proxies; asked again every 10 minutes",
        )),
        Some(Stop::NotSupported) => Some(Condition::no(
            kind,
            reasons::NOT_SUPPORTED,
            "the server knows no licences: workspace proxies need one that does",
        )),
        _ if draft.entitled => Some(Condition::yes(
            kind,
            reasons::ENTITLED,
            "the server's licence has workspace proxies",
        )),
        _ => None,
    }
}

/// Whether the server knows the proxy. It stays so whatever becomes of a call.
fn registered_condition(world: &Observed, draft: &Draft, stop: Option<&Stop>) -> Condition {
    let kind = kinds::REGISTERED;
    let no = |reason: &str, story: &str| Condition::no(kind, reason, story);
    if let Some(Stop::Deleting(story)) = stop {
        return no(reasons::DELETING, story);
    }
    if let Some(current) = draft.current() {
        let story = format!("the server knows the proxy {}", current.name);
        return Condition::yes(kind, reasons::REGISTERED, story);
    }
    if let Some(limited) = &draft.status.rate_limited {
        return no(reasons::RATE_LIMITED, &rate_limit_message(&limited.endpoint));
    }
    match stop {
        Some(Stop::Rejected { reason, message }) => no(reason, message),
        Some(Stop::FormerServer(story)) => no(reasons::NOT_REGISTERED, story),
        Some(Stop::Blocked(Blocked::Later { .. })) => no(
            reasons::WAITING_FOR_BUDGET,
            "its calls wait for their turn within the server's rate limit",
        ),
        Some(Stop::Blocked(Blocked::Refused(error))) => match error.class {
            CallErrorClass::Server | CallErrorClass::NoAnswer => no(
                reasons::NOT_REGISTERED,
                "the server does not answer as it should; it is asked again",
            ),
            _ => no(reasons::REGISTRATION_FAILED, &error.to_string()),
        },
        Some(Stop::NotEntitled | Stop::NotSupported) => {
            no(reasons::NOT_REGISTERED, "the server's licence allows none")
        }
        Some(Stop::SecretNotKept) => no(reasons::NOT_REGISTERED, SECRET_NOT_KEPT),
        _ if !matches!(world.access, Some(Ok(_))) => {
            no(reasons::NOT_REGISTERED, "there is no access to the server")
        }
        _ => no(reasons::NOT_REGISTERED, "it is about to be registered"),
    }
}

fn secret_condition(world: &Observed, draft: &Draft) -> Option<Condition> {
    let kind = kinds::TOKEN_SECRET_READY;
    let name = secret_ref(&world.object).name;
    let yes = || {
        let story = format!("the token is in the Secret {name}");
        Condition::yes(kind, reasons::SECRET_READY, story)
    };
    if let SecretState::Foreign(whose) = &world.secret {
        return Some(Condition::no(kind, reasons::SECRET_NOT_OURS, &**whose));
    }
    if world.access.is_none() {
        return Some(match &world.secret {
            SecretState::Owned { intact: true, .. } => yes(),
            _ => Condition::no(
                kind,
                reasons::SECRET_PENDING,
                format!(
                    "there is no Secret {name} of type Opaque with the proxy's token under the key {}: \
                     create it",
                    secret_ref(&world.object).key
                ),
            ),
        });
    }
    let current = draft.current()?;
    Some(match has_stored_token(world, &current) {
        true => yes(),
        false => Condition::no(
            kind,
            reasons::SECRET_PENDING,
            format!("the Secret {name} does not hold the proxy's token: a new one is made"),
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

fn health_condition(world: &Observed, draft: &Draft) -> Option<Condition> {
    let kind = kinds::PROXY_HEALTHY;
    let healthy = draft.healthy?;
    Some(match healthy {
        true => Condition::yes(kind, reasons::HEALTHY, "the server finds the proxy well"),
        false if world.object.spec.replicas == 0 => {
            Condition::no(kind, reasons::SCALED_TO_ZERO, "no pods are asked for")
        }
        false => Condition::no(
            kind,
            reasons::UNHEALTHY,
            "the server does not reach the proxy, or has not heard of it yet",
        ),
    })
}

/// Ready is what the server itself says of the proxy; it is lowered by what is known, and left as it is by
/// what could not be asked.
fn ready_condition(
    world: &Observed,
    draft: &Draft,
    said: &[Condition],
    stop: Option<&Stop>,
) -> Option<Condition> {
    let kind = kinds::READY;
    match stop {
        Some(Stop::Deleting(story)) => {
            return Some(Condition::no(kind, reasons::DELETING, &**story));
        }
        Some(Stop::Rejected { reason, message }) => {
            return Some(Condition::no(kind, reason, &**message));
        }
        _ => {}
    }
    if let Some(Err(denied)) = &world.access {
        return Some(Condition::no(kind, denied.reason, &*denied.message));
    }
    if let Some(worst) = first_failing(world, draft, said) {
        return Some(Condition::no(kind, &worst.reason, &*worst.message));
    }
    match stop {
        None if is_serving(world, draft) => Some(Condition::yes(
            kind,
            reasons::PROVEN,
            "the proxy has its token and serves",
        )),
        None if world.access.is_none() => Some(Condition::no(
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
    let counts = |it: &&Condition| match &*it.kind {
        kinds::CONTROL_PLANE_READY => !works,
        kinds::DEPLOYMENT_READY => world.access.is_none(),
        kinds::PROXY_HEALTHY => world.object.spec.replicas != 0,
        _ => true,
    };
    let mut counted = said.iter().filter(counts);
    counted.find(|it| it.status.word() == "False")
}

/// Whether it serves, as the server sees it, or else as the pods do.
fn is_serving(world: &Observed, draft: &Draft) -> bool {
    let replicas = world.object.spec.replicas;
    match &world.access {
        Some(_) => draft.healthy == Some(true) || (replicas == 0 && draft.current().is_some()),
        None => world
            .deployment
            .as_ref()
            .is_some_and(|it| it.ready >= replicas),
    }
}

/// Nobody can tell, for the reason that the server gives if it does.
fn unknown_condition(said: &[Condition]) -> Condition {
    let server = said.iter().find(|it| it.kind == kinds::CONTROL_PLANE_READY);
    let silent = server.filter(|it| it.status.word() == "False");
    let reason = silent.map_or(reasons::STALE, |it| &it.reason);
    let story = "the server could not be asked for the proxy";
    Condition::unknown(kinds::READY, reason, story)
}

fn progress_condition(draft: &Draft, stop: Option<&Stop>) -> Option<Condition> {
    let under_way = draft.status.pending.is_some() || !draft.status.retiring.is_empty();
    let waiting = matches!(stop, Some(Stop::Blocked(it)) if it.is_transient());
    (under_way || waiting).then(|| {
        let story = "the proxy is being registered or replaced, or the server is waited for";
        Condition::yes(RECONCILING, "Progressing", story)
    })
}
