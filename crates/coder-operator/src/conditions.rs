//! Conditions about the server that both kinds share. The same input gives the same messages.

use std::time::Duration;

use aplomb::Condition;
use aplomb_api::coder::{ServerBinding, annotations, conditions as kinds, reasons};
use jiff::{Timestamp, ToSpan};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use crate::access::{Access, AccessDenied};
use crate::blocked::Blocked;
use crate::client::{CallError, CallErrorClass};

/// Reported while the token Secret has no finalizer, before anything is created. If it stays, the
/// API server refuses the finalizer.
pub(crate) const SECRET_NOT_KEPT: &str = "waiting for the finalizer coder.aplomb.dev/token on the token Secret";

/// Whether the server exists and responds.
pub(crate) fn server_condition(access: &Result<Access, AccessDenied>, hindrances: &[Blocked]) -> Option<Condition> {
    let kind = kinds::CONTROL_PLANE_READY;
    match access {
        Err(denied) if denied.server_missing => Some(Condition::new_false(kind, denied.reason, &*denied.message)),
        Err(_) => None,
        Ok(access) => {
            let silent = first_refusal(hindrances, |it| {
                matches!(it, CallErrorClass::Server | CallErrorClass::NoAnswer)
            });
            Some(match silent {
                Some(error) => Condition::new_false(
                    kind,
                    reasons::SERVER_UNREACHABLE,
                    format!(
                        "{} did not respond correctly to `{}`; check that the server is up",
                        access.url, error.endpoint
                    ),
                ),
                None => Condition::new_true(
                    kind,
                    reasons::CONTROL_PLANE_AVAILABLE,
                    format!("the server is {}", access.url),
                ),
            })
        }
    }
}

/// Whether there is a token, and the server accepts it.
pub(crate) fn access_condition(access: &Result<Access, AccessDenied>, hindrances: &[Blocked]) -> Option<Condition> {
    let kind = kinds::OPERATOR_ACCESS_READY;
    match access {
        Err(denied) if denied.server_missing => None,
        Err(denied) => Some(Condition::new_false(kind, denied.reason, &*denied.message)),
        Ok(access) => Some(match first_refusal(hindrances, |it| it == CallErrorClass::Token) {
            Some(_) => Condition::new_false(
                kind,
                reasons::TOKEN_REJECTED,
                format!(
                    "{} rejected the token in Secret {}: put a valid token there",
                    access.url, access.binding.token_secret_ref.name
                ),
            ),
            None => Condition::new_true(kind, reasons::ACCESS_READY, "a token for the server is present"),
        }),
    }
}

fn first_refusal(all: &[Blocked], class: impl Fn(CallErrorClass) -> bool) -> Option<&CallError> {
    all.iter().find_map(|it| match it {
        Blocked::Refused(error) if class(error.class) => Some(error),
        _ => None,
    })
}

/// Why a deletion waits, with the command to skip it if the server may be gone too, for example
/// with its namespace.
pub(crate) fn deletion_waits_message(story: &str, why: &Blocked, kind: &str, object: &ObjectMeta) -> String {
    if !matches!(why.class(), Some(CallErrorClass::Server | CallErrorClass::NoAnswer)) {
        return story.to_owned();
    }
    let namespace = object.namespace.as_deref().unwrap_or_default();
    let name = object.name.as_deref().unwrap_or_default();
    format!(
        "{story}. If that server no longer exists, run: kubectl annotate {kind} -n {namespace} {name} {}=true",
        annotations::ABANDON
    )
}

/// The objects left at servers, and what to do about them.
pub(crate) fn leftovers_message<'a>(
    all: impl Iterator<Item = (&'a str, &'a str, &'a ServerBinding)>,
    kind: &str,
    object: &ObjectMeta,
) -> String {
    let one = |(what, name, at): (&str, &str, &ServerBinding)| {
        let (url, secret) = (&at.server_url, &at.token_secret_ref.name);
        format!("{what} {name} at {url} (token in Secret {secret})")
    };
    let left: Vec<_> = all.map(one).collect();
    let namespace = object.namespace.as_deref().unwrap_or_default();
    let name = object.name.as_deref().unwrap_or_default();
    format!(
        "cannot delete {}: the Secret is missing, has another token, or does not list the server \
         in annotation {}. Correct the Secret, or delete by hand and run: kubectl annotate {kind} \
         -n {namespace} {name} {}=true",
        left.join(", "),
        annotations::SERVERS,
        annotations::ABANDON
    )
}

/// Rounds to whole seconds, as Kubernetes does; a fraction would differ from what is read back.
pub(crate) fn whole_seconds(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

/// The time since `then`; zero if that is in the future.
pub(crate) fn elapsed(then: &Time, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then.0)).unwrap_or_default()
}

/// `at` plus `span`.
pub(crate) fn add_span(at: &Time, span: Duration) -> Timestamp {
    let seconds = i64::try_from(span.as_secs()).unwrap_or(i64::MAX / 2);
    at.0.checked_add(seconds.seconds()).unwrap_or(Timestamp::MAX)
}
