//! From what is known of a CoderWorkspaceProxy to its one next step, and to what is said of it. Pure.
//!
//! A name is written down before it is registered, and an earlier registration is taken back only when the
//! new one serves. A token that was lost is not mourned: the server makes another.

mod draft;
mod farewell;
mod outcome;
mod registration;
mod retire;
mod said;
mod wanted;

#[cfg(test)]
mod tests;

use std::time::Duration;

use aplomb_api::coder::{FINALIZER, reasons};

use super::world::{Children, Observed, Plan, ProxyRegistration, Step};
use crate::access::Access;
use crate::client::{CallErrorClass, Entitlement};
use crate::ending::SELDOM;
use crate::seen::SecretState;

pub(crate) use self::wanted::{looks, secret_ref};
use draft::{Course, Draft, Next, Stop};

/// How old what is known of a proxy may be while something is waited for.
const SOON: Duration = Duration::from_secs(5);
/// And while it is well.
const STEADY: Duration = Duration::from_secs(60);
/// What is this much younger is not worth another look.
const NEARLY: Duration = Duration::from_secs(1);

/// The next step, and what is to be said meanwhile.
pub(crate) fn decide(world: &Observed) -> Plan {
    let mut draft = Draft::new(world);
    let deleted = world.object.metadata.deletion_timestamp.is_some();
    let ended = match (deleted, &world.access) {
        (true, _) => farewell::course(world, &mut draft),
        (false, Some(access)) => match access {
            Ok(access) => registered(world, &mut draft, access),
            Err(_) => Err(Stop::Denied.into()),
        },
        (false, None) => given(world, &mut draft),
    };
    outcome::conclude(world, draft, ended)
}

/// The operator registers the proxy.
fn registered(world: &Observed, draft: &mut Draft, access: &Access) -> Course<()> {
    if !world.seen.finalized && !holds(world) {
        return Err(Next::step(Step::Finalize));
    }
    let image = world.object.spec.image.clone();
    let image = image.or_else(|| access.image.clone());
    let image = image.ok_or_else(|| no_image(access.control_plane.as_deref()))?;
    if let SecretState::Foreign(whose) = &world.secret {
        return Err(Stop::rejected(reasons::SECRET_NOT_OURS, whose.clone()).into());
    }
    entitled(world, draft)?;
    let current = registration::course(world, draft, access)?;
    if !world.seen.applied {
        let children = Children {
            url: access.url.clone(),
            image,
            secret: secret_ref(&world.object),
            id: Some(current.id),
            ca: access.ca.clone(),
            prune: draft.status.retiring.is_empty() && draft.healthy == Some(true),
        };
        return Err(Next::step(Step::Apply(children)));
    }
    if world.object.spec.replicas == 0 || draft.healthy == Some(true) {
        draft.again(STEADY);
    } else {
        draft.again(SOON);
    }
    retire::course(world, draft)
}

/// The proxy was registered by the user: no server is called, unless something is to be deleted
/// there.
fn given(world: &Observed, draft: &mut Draft) -> Course<()> {
    let spec = &world.object.spec;
    let (Some(url), Some(_)) = (
        &spec.primary_access_url,
        &spec.proxy_session_token_secret_ref,
    ) else {
        let story = "set bootstrap, or primaryAccessURL and proxySessionTokenSecretRef";
        return Err(Stop::rejected(reasons::NOT_REGISTERED, story.to_owned()).into());
    };
    if draft.current().is_some() {
        draft.retire_current(world);
        return Err(Next::Persist);
    }
    // What is left at former servers is handled separately from the given token.
    farewell::held(farewell::unintend(world, draft))?;
    let image = spec.image.clone().ok_or_else(|| no_image(None))?;
    if !matches!(&world.secret, SecretState::Ours { whole: true, .. }) {
        return Err(Stop::NoToken.into());
    }
    if !world.seen.applied {
        return Err(Next::step(Step::Apply(Children {
            url: url.clone(),
            image,
            secret: secret_ref(&world.object),
            id: None,
            ca: None,
            prune: draft.status.retiring.is_empty(),
        })));
    }
    retire::course(world, draft)
}

fn no_image(control_plane: Option<&str>) -> Next {
    let fix = match control_plane {
        Some(name) => format!("set spec.image here or on CoderControlPlane {name}"),
        None => "set spec.image".to_owned(),
    };
    Stop::rejected(reasons::IMAGE_MISSING, format!("no image is set: {fix}")).into()
}

fn entitled(world: &Observed, draft: &mut Draft) -> Course<()> {
    let Some(looked) = &world.seen.entitlements else {
        return Err(Next::step(Step::Entitlements));
    };
    match looked {
        Ok(listed) if listed.value.proxies.entitlement == Entitlement::NotEntitled => {
            Err(Stop::NotEntitled.into())
        }
        Ok(_) => {
            draft.entitled = true;
            Ok(())
        }
        // What is registered works on, and a lasting refusal will meet the next call as well.
        Err(hindrance) if draft.current().is_some() && hindrance.passes() => {
            draft.hinder(hindrance);
            Ok(())
        }
        Err(hindrance) if hindrance.class() == Some(CallErrorClass::Missing) => {
            Err(Stop::NotSupported.into())
        }
        Err(hindrance) => Err(Stop::Hindered(hindrance.clone()).into()),
    }
}

/// Whether the object has our finalizer.
fn holds(world: &Observed) -> bool {
    let all = world.object.metadata.finalizers.iter().flatten();
    all.into_iter().any(|it| it == FINALIZER)
}

/// Whether the Secret holds the token of this registration.
fn stored(world: &Observed, current: &ProxyRegistration) -> bool {
    let made = world.seen.made.as_ref() == Some(&current.id);
    made || matches!(&world.secret, SecretState::Ours { key_name: Some(id), whole: true } if *id == current.id)
}
