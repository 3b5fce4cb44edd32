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
        Some(Stop::NotEntitled) => Some(Condition::no(
            kind,
            reasons::NOT_ENTITLED,
            "the server's license has no workspace proxies; checking again every 10 minutes",
        )),
        Some(Stop::NotSupported) => Some(Condition::no(
            kind,
            reasons::NOT_SUPPORTED,
            "the server has no licensing; workspace proxies need a licensed version of Coder",
        )),
        _ if draft.entitled => Some(Condition::yes(
            kind,
            reasons::ENTITLED,
            "the server's license includes workspace proxies",
        )),
        _ => None,
    }
}

/// Whether the server knows the proxy. It stays so whatever becomes of a call.
fn registered(world: &Observed, draft: &Draft, stop: Option<&Stop>) -> Condition {
    let kind = kinds::REGISTERED;
    let no = |reason: &str, story: &str| Condition::no(kind, reason, story);
    if let Some(Stop::Leaving(story)) = stop {
        return no(reasons::DELETING, story);
    }
    if let Some(current) = draft.current() {
        let story = format!("proxy {} is registered on the server", current.name);
        return Condition::yes(kind, reasons::REGISTERED, story);
    }
    if let Some(limited) = &draft.status.rate_limited {
        return no(reasons::RATE_LIMITED, &limited_story(&limited.endpoint));
    }
    match stop {
        Some(Stop::Rejected { reason, message }) => no(reason, message),
        Some(Stop::Elsewhere(story)) => no(reasons::NOT_REGISTERED, story),
        Some(Stop::Hindered(Blocked::Later { .. })) => no(
            reasons::WAITING_FOR_BUDGET,
            "calls are queued behind the server's rate limit",
        ),
        Some(Stop::Hindered(Blocked::Refused(error))) => match error.class {
            CallErrorClass::Server | CallErrorClass::NoAnswer => no(
                reasons::NOT_REGISTERED,
                "the server does not respond correctly; will retry",
            ),
            _ => no(reasons::REGISTRATION_FAILED, &error.to_string()),
        },
        Some(Stop::NotEntitled | Stop::NotSupported) => {
            no(reasons::NOT_REGISTERED, "the server's license has no workspace proxies")
        }
        Some(Stop::Unheld) => no(reasons::NOT_REGISTERED, UNHELD),
        _ if !matches!(world.access, Some(Ok(_))) => {
            no(reasons::NOT_REGISTERED, "no access to the server")
        }
        _ => no(reasons::NOT_REGISTERED, "registering the proxy"),
    }
}

fn secret(world: &Observed, draft: &Draft) -> Option<Condition> {
    let kind = kinds::TOKEN_SECRET_READY;
    let name = secret_ref(&world.object).name;
    let yes = || {
        let story = format!("the token is in Secret {name}");
        Condition::yes(kind, reasons::SECRET_READY, story)
    };
    if let SecretState::Foreign(whose) = &world.secret {
        return Some(Condition::no(kind, reasons::SECRET_NOT_OURS, &**whose));
    }
    if world.access.is_none() {
        return Some(match &world.secret {
            SecretState::Ours { whole: true, .. } => yes(),
            _ => Condition::no(
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
    Some(match stored(world, &current) {
        true => yes(),
        false => Condition::no(
            kind,
            reasons::SECRET_PENDING,
            format!("Secret {name} does not have the proxy's token; creating a new token"),
        ),
    })
}

fn deployment(world: &Observed, stop: Option<&Stop>) -> Option<Condition> {
    let kind = kinds::DEPLOYMENT_READY;
    if let Some(Stop::Rejected { reason, message }) = stop
        && *reason == reasons::IMAGE_MISSING
    {
        return Some(Condition::no(kind, reason, &**message));
    }
    let seen = world.deployment.as_ref()?;
    Some(match (seen.ready, world.object.spec.replicas) {
        (_, 0) => Condition::yes(kind, reasons::SCALED_TO_ZERO, "spec.replicas is 0"),
        (1.., _) => Condition::yes(kind, reasons::REPLICAS_READY, "at least one pod is ready"),
        _ => Condition::no(kind, reasons::NO_REPLICAS_READY, "no pod is ready"),
    })
}

fn health(world: &Observed, draft: &Draft) -> Option<Condition> {
    let kind = kinds::PROXY_HEALTHY;
    let healthy = draft.healthy?;
    Some(match healthy {
        true => Condition::yes(kind, reasons::HEALTHY, "the server reports the proxy as healthy"),
        false if world.object.spec.replicas == 0 => {
            Condition::no(kind, reasons::SCALED_TO_ZERO, "spec.replicas is 0")
        }
        false => Condition::no(
            kind,
            reasons::UNHEALTHY,
            "the server has not reached the proxy yet; check the pods and their network",
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
    if let Some(worst) = worst(world, draft, said) {
        return Some(Condition::no(kind, &worst.reason, &*worst.message));
    }
    match stop {
        None if proven(world, draft) => Some(Condition::yes(
            kind,
            reasons::PROVEN,
            "the proxy has its token and is healthy",
        )),
        None if world.access.is_none() => Some(Condition::no(
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

/// The state is unknown, for the server's reason if it gave one.
fn stale(said: &[Condition]) -> Condition {
    let server = said.iter().find(|it| it.kind == kinds::CONTROL_PLANE_READY);
    let silent = server.filter(|it| it.status.word() == "False");
    let reason = silent.map_or(reasons::STALE, |it| &it.reason);
    let story = "cannot read the proxy from the server; will retry";
    Condition::unknown(kinds::READY, reason, story)
}

fn progress(draft: &Draft, stop: Option<&Stop>) -> Option<Condition> {
    let under_way = draft.status.pending.is_some() || !draft.status.retiring.is_empty();
    let waiting = matches!(stop, Some(Stop::Hindered(it)) if it.passes());
    (under_way || waiting).then(|| {
        let story = "registering or replacing the proxy, or waiting for the server";
        Condition::yes(RECONCILING, "Progressing", story)
    })
}
