//! From what is known of a CoderWorkspaceProxy to its one next step, and to what is said of it. Pure.
//!
//! A name is written down before it is registered, and an earlier registration is taken back only when the
//! new one serves. A token that was lost is not mourned: the server makes another.

mod conditions;
mod deletion;
mod desired;
mod plan_builder;
mod registration;

#[cfg(test)]
mod tests;

use std::time::Duration;

use aplomb_api::coder::{FINALIZER, reasons};
use kube::ResourceExt;

use super::{Children, Observed, Plan, ProxyRegistration, Step};
use crate::access::Access;
use crate::blocked::PERMANENT_RETRY;
use crate::children_state::SecretState;
use crate::client::{CallErrorClass, Entitlement};

pub(crate) use self::desired::{proxy_display, secret_ref};
use plan_builder::{Course, Draft, Next, Stop};

/// How old what is known of a proxy may be while something is waited for.
const WAITING_MAX_AGE: Duration = Duration::from_secs(5);
/// And while it is well.
const STEADY_MAX_AGE: Duration = Duration::from_secs(60);
/// What is this much younger is not worth another look.
const AGE_TOLERANCE: Duration = Duration::from_secs(1);

/// The next step, and what is to be said meanwhile.
pub(crate) fn decide(world: &Observed) -> Plan {
    let mut draft = Draft::new(world);
    let deleted = world.object.metadata.deletion_timestamp.is_some();
    let ended = match (deleted, &world.access) {
        (true, _) => deletion::decide_deletion(world, &mut draft),
        (false, Some(access)) => match access {
            Ok(access) => decide_registered(world, &mut draft, access),
            Err(_) => Err(Stop::NoAccess.into()),
        },
        (false, None) => decide_unmanaged(world, &mut draft),
    };
    plan_builder::build_plan(world, draft, ended)
}

/// The operator registers the proxy.
fn decide_registered(world: &Observed, draft: &mut Draft, access: &Access) -> Course<()> {
    if !world.progress.finalized && !has_finalizer(world) {
        return Err(Next::step(Step::Finalize));
    }
    let image = world.object.spec.image.clone();
    let image = image.or_else(|| access.image.clone());
    let image = image.ok_or_else(|| image_missing(access.control_plane.as_deref()))?;
    if let SecretState::Foreign(whose) = &world.secret {
        return Err(Stop::rejected(reasons::SECRET_NOT_OURS, whose.clone()).into());
    }
    check_entitlement(world, draft)?;
    let current = registration::decide_registration(world, draft, access)?;
    if !world.progress.applied {
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
        draft.requeue_within(STEADY_MAX_AGE);
    } else {
        draft.requeue_within(WAITING_MAX_AGE);
    }
    deletion::decide_retirement(world, draft)
}

/// The proxy was registered by the user: no server is called, unless something is to be deleted
/// there.
fn decide_unmanaged(world: &Observed, draft: &mut Draft) -> Course<()> {
    let spec = &world.object.spec;
    let (Some(url), Some(_)) = (&spec.primary_access_url, &spec.proxy_session_token_secret_ref) else {
        let story = "set bootstrap, or primaryAccessURL and proxySessionTokenSecretRef";
        return Err(Stop::rejected(reasons::NOT_REGISTERED, story.to_owned()).into());
    };
    if draft.current().is_some() {
        draft.retire_current(world);
        return Err(Next::Persist);
    }
    // What is left at former servers is handled separately from the given token.
    deletion::defer_stop(deletion::drop_pending(world, draft))?;
    let image = spec.image.clone().ok_or_else(|| image_missing(None))?;
    if !matches!(&world.secret, SecretState::Owned { intact: true, .. }) {
        return Err(Stop::NoToken.into());
    }
    if !world.progress.applied {
        return Err(Next::step(Step::Apply(Children {
            url: url.clone(),
            image,
            secret: secret_ref(&world.object),
            id: None,
            ca: None,
            prune: draft.status.retiring.is_empty(),
        })));
    }
    deletion::decide_retirement(world, draft)
}

fn image_missing(control_plane: Option<&str>) -> Next {
    let fix = match control_plane {
        Some(name) => format!("set spec.image here or on CoderControlPlane {name}"),
        None => "set spec.image".to_owned(),
    };
    Stop::rejected(reasons::IMAGE_MISSING, format!("no image is set: {fix}")).into()
}

fn check_entitlement(world: &Observed, draft: &mut Draft) -> Course<()> {
    let Some(looked) = &world.progress.entitlements else {
        return Err(Next::step(Step::Entitlements));
    };
    match looked {
        Ok(listed) if listed.value.proxies.entitlement == Entitlement::NotEntitled => Err(Stop::NotEntitled.into()),
        Ok(_) => {
            draft.entitled = true;
            Ok(())
        }
        // What is registered works on, and a lasting refusal will meet the next call as well.
        Err(hindrance) if draft.current().is_some() && hindrance.is_transient() => {
            draft.record_blocked(hindrance);
            Ok(())
        }
        Err(hindrance) if hindrance.class() == Some(CallErrorClass::Missing) => Err(Stop::NotSupported.into()),
        Err(hindrance) => Err(Stop::Blocked(hindrance.clone()).into()),
    }
}

fn has_finalizer(world: &Observed) -> bool {
    world.object.finalizers().iter().any(|it| it == FINALIZER)
}

/// Whether the Secret holds the token of this registration.
fn has_stored_token(world: &Observed, current: &ProxyRegistration) -> bool {
    let made = world.progress.token_stored.as_ref() == Some(&current.id);
    made || matches!(&world.secret, SecretState::Owned { key_name: Some(id), intact: true } if *id == current.id)
}
