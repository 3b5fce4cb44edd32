//! What is said of an object, from where its course ended. The same world gives the same words: nothing
//! here counts attempts or names a time that moves.

use aplomb::Condition;
use aplomb::conditions::RECONCILING;
use aplomb_api::coder::{conditions as kinds, reasons};

use super::draft::{Draft, Stop};
use super::{secret_ref, stored};
use crate::client::CallErrorClass;
use crate::ending::limited_story;
use crate::hindrance::Blocked;
use crate::proxy::world::Observed;
use crate::said::{UNHELD, access, server};
use crate::seen::SecretState;

pub(super) fn all(world: &Observed, draft: &Draft, stop: Option<&Stop>) -> Vec<Condition> {
    let mut all = Vec::new();
    if let Some(access_to) = &world.access {
        all.extend(server(access_to, &draft.hindrances));
        all.extend(access(access_to, &draft.hindrances));
        all.extend(entitled(draft, stop));
        all.push(registered(world, draft, stop));
    }
    all.extend(secret(world, draft));
    all.extend(deployment(world, stop));
    all.extend(health(world, draft));
    all.extend(ready(world, draft, &all, stop));
    all.extend(progress(draft, stop));
    all
}

fn entitled(draft: &Draft, stop: Option<&Stop>) -> Option<Condition> {
    let kind = kinds::PROXY_ENTITLED;
    match stop {
        Some(Stop::NotEntitled) => Some(Condition::new_false(
            kind,
            reasons::NOT_ENTITLED,
            "the server's licence has no workspace proxies; asked again every 10 minutes",
        )),
        Some(Stop::NotSupported) => Some(Condition::new_false(
            kind,
            reasons::NOT_SUPPORTED,
            "the server knows no licences: workspace proxies need one that does",
        )),
        _ if draft.entitled => Some(Condition::new_true(
            kind,
            reasons::ENTITLED,
            "the server's licence has workspace proxies",
        )),
        _ => None,
    }
}

/// Whether the server knows the proxy. It stays so whatever becomes of a call.
fn registered(world: &Observed, draft: &Draft, stop: Option<&Stop>) -> Condition {
    let kind = kinds::REGISTERED;
    let no = |reason: &str, story: &str| Condition::new_false(kind, reason, story);
    if let Some(Stop::Leaving(story)) = stop {
        return no(reasons::DELETING, story);
    }
    if let Some(current) = draft.current() {
        let story = format!("the server knows the proxy {}", current.name);
        return Condition::new_true(kind, reasons::REGISTERED, story);
    }
    if let Some(limited) = &draft.status.rate_limited {
        return no(reasons::RATE_LIMITED, &limited_story(&limited.endpoint));
    }
    match stop {
        Some(Stop::Rejected { reason, message }) => no(reason, message),
        Some(Stop::Elsewhere(story)) => no(reasons::NOT_REGISTERED, story),
        Some(Stop::Hindered(Blocked::Later { .. })) => no(
            reasons::WAITING_FOR_BUDGET,
            "its calls wait for their turn within the server's rate limit",
        ),
        Some(Stop::Hindered(Blocked::Refused(error))) => match error.class {
            CallErrorClass::Server | CallErrorClass::NoAnswer => no(
                reasons::NOT_REGISTERED,
                "the server does not answer as it should; it is asked again",
            ),
            _ => no(reasons::REGISTRATION_FAILED, &error.to_string()),
        },
        Some(Stop::NotEntitled | Stop::NotSupported) => {
            no(reasons::NOT_REGISTERED, "the server's licence allows none")
        }
        Some(Stop::Unheld) => no(reasons::NOT_REGISTERED, UNHELD),
        _ if !matches!(world.access, Some(Ok(_))) => {
            no(reasons::NOT_REGISTERED, "there is no access to the server")
        }
        _ => no(reasons::NOT_REGISTERED, "it is about to be registered"),
    }
}

fn secret(world: &Observed, draft: &Draft) -> Option<Condition> {
    let kind = kinds::TOKEN_SECRET_READY;
    let name = secret_ref(&world.object).name;
    let yes = || {
        let story = format!("the token is in the Secret {name}");
        Condition::new_true(kind, reasons::SECRET_READY, story)
    };
    if let SecretState::Foreign(whose) = &world.secret {
        return Some(Condition::new_false(kind, reasons::SECRET_NOT_OURS, &**whose));
    }
    if world.access.is_none() {
        return Some(match &world.secret {
            SecretState::Ours { whole: true, .. } => yes(),
            _ => Condition::new_false(
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
    Some(match stored(world, &current) {
        true => yes(),
        false => Condition::new_false(
            kind,
            reasons::SECRET_PENDING,
            format!("the Secret {name} does not hold the proxy's token: a new one is made"),
        ),
    })
}

fn deployment(world: &Observed, stop: Option<&Stop>) -> Option<Condition> {
    let kind = kinds::DEPLOYMENT_READY;
    if let Some(Stop::Rejected { reason, message }) = stop
        && *reason == reasons::IMAGE_MISSING
    {
        return Some(Condition::new_false(kind, reason, &**message));
    }
    let seen = world.deployment.as_ref()?;
    Some(match (seen.ready, world.object.spec.replicas) {
        (_, 0) => Condition::new_true(kind, reasons::SCALED_TO_ZERO, "no pods are asked for"),
        (1.., _) => Condition::new_true(kind, reasons::REPLICAS_READY, "at least one pod is ready"),
        _ => Condition::new_false(kind, reasons::NO_REPLICAS_READY, "no pod is ready"),
    })
}

fn health(world: &Observed, draft: &Draft) -> Option<Condition> {
    let kind = kinds::PROXY_HEALTHY;
    let healthy = draft.healthy?;
    Some(match healthy {
        true => Condition::new_true(kind, reasons::HEALTHY, "the server finds the proxy well"),
        false if world.object.spec.replicas == 0 => {
            Condition::new_false(kind, reasons::SCALED_TO_ZERO, "no pods are asked for")
        }
        false => Condition::new_false(
            kind,
            reasons::UNHEALTHY,
            "the server does not reach the proxy, or has not heard of it yet",
        ),
    })
}

/// Ready is what the server itself says of the proxy; it is lowered by what is known, and left as it is by
/// what could not be asked.
fn ready(
    world: &Observed,
    draft: &Draft,
    said: &[Condition],
    stop: Option<&Stop>,
) -> Option<Condition> {
    let kind = kinds::READY;
    match stop {
        Some(Stop::Leaving(story)) => {
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
    if let Some(worst) = worst(world, draft, said) {
        return Some(Condition::new_false(kind, &worst.reason, &*worst.message));
    }
    match stop {
        None if proven(world, draft) => Some(Condition::new_true(
            kind,
            reasons::PROVEN,
            "the proxy has its token and serves",
        )),
        None if world.access.is_none() => Some(Condition::new_false(
            kind,
            reasons::NO_REPLICAS_READY,
            "not all pods are ready",
        )),
        _ if draft.hindrances.is_empty() => None,
        _ => Some(stale(said)),
    }
}

/// The first of what is known to be wrong.
fn worst<'a>(world: &Observed, draft: &Draft, said: &'a [Condition]) -> Option<&'a Condition> {
    // A server that does not answer is why a token is missing, and no more than a doubt where there is one.
    let works = draft.current().is_some_and(|it| stored(world, &it));
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
fn proven(world: &Observed, draft: &Draft) -> bool {
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
fn stale(said: &[Condition]) -> Condition {
    let server = said.iter().find(|it| it.type_ == kinds::CONTROL_PLANE_READY);
    let silent = server.filter(|it| it.status.as_str() == "False");
    let reason = silent.map_or(reasons::STALE, |it| &it.reason);
    let story = "the server could not be asked for the proxy";
    Condition::new_unknown(kinds::READY, reason, story)
}

fn progress(draft: &Draft, stop: Option<&Stop>) -> Option<Condition> {
    let under_way = draft.status.pending.is_some() || !draft.status.retiring.is_empty();
    let waiting = matches!(stop, Some(Stop::Hindered(it)) if it.passes());
    (under_way || waiting).then(|| {
        let story = "the proxy is being registered or replaced, or the server is waited for";
        Condition::new_true(RECONCILING, "Progressing", story)
    })
}
