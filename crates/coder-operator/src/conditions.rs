//! What both kinds say of their server. The same world gives the same words.

use aplomb::Condition;
use aplomb_api::coder::{ServerBinding, annotations, conditions as kinds, reasons};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::access::{Access, AccessDenied};
use crate::client::{CallError, CallErrorClass};
use crate::hindrance::Blocked;

/// Why nothing is made yet where the Secret with the token has no finalizer. If it stays so, the API server
/// refuses it.
pub(crate) const SECRET_NOT_KEPT: &str =
    "waits for the finalizer coder.aplomb.dev/token on the Secret with the token";

/// Whether there is a server, and it answers.
pub(crate) fn server_condition(
    access: &Result<Access, AccessDenied>,
    hindrances: &[Blocked],
) -> Option<Condition> {
    let kind = kinds::CONTROL_PLANE_READY;
    match access {
        Err(denied) if denied.server_missing => {
            Some(Condition::no(kind, denied.reason, &*denied.message))
        }
        Err(_) => None,
        Ok(access) => {
            let silent = first_refusal(hindrances, |it| {
                matches!(it, CallErrorClass::Server | CallErrorClass::NoAnswer)
            });
            Some(match silent {
                Some(error) => Condition::no(
                    kind,
                    reasons::SERVER_UNREACHABLE,
                    format!(
                        "{} does not answer `{}` as it should",
                        access.url, error.endpoint
                    ),
                ),
                None => Condition::yes(
                    kind,
                    reasons::CONTROL_PLANE_AVAILABLE,
                    format!("the server is {}", access.url),
                ),
            })
        }
    }
}

/// Whether there is a token for it, and it takes it.
pub(crate) fn access_condition(
    access: &Result<Access, AccessDenied>,
    hindrances: &[Blocked],
) -> Option<Condition> {
    let kind = kinds::OPERATOR_ACCESS_READY;
    match access {
        Err(denied) if denied.server_missing => None,
        Err(denied) => Some(Condition::no(kind, denied.reason, &*denied.message)),
        Ok(access) => Some(
            match first_refusal(hindrances, |it| it == CallErrorClass::Token) {
                Some(_) => Condition::no(
                    kind,
                    reasons::TOKEN_REJECTED,
                    format!(
                        "{} does not take the token in the Secret {}: put a valid one there",
                        access.url, access.binding.token_secret_ref.name
                    ),
                ),
                None => Condition::yes(
                    kind,
                    reasons::ACCESS_READY,
                    "there is a token for the server",
                ),
            },
        ),
    }
}

fn first_refusal(all: &[Blocked], class: impl Fn(CallErrorClass) -> bool) -> Option<&CallError> {
    all.iter().find_map(|it| match it {
        Blocked::Refused(error) if class(error.class) => Some(error),
        _ => None,
    })
}

/// Why a deletion waits, and the way out where its server may be gone too, as with its namespace.
pub(crate) fn deletion_waits_message(story: &str, why: &Blocked, kind: &str, object: &ObjectMeta) -> String {
    if !matches!(
        why.class(),
        Some(CallErrorClass::Server | CallErrorClass::NoAnswer)
    ) {
        return story.to_owned();
    }
    let namespace = object.namespace.as_deref().unwrap_or_default();
    let name = object.name.as_deref().unwrap_or_default();
    format!(
        "{story}. If that server is gone for good, run: kubectl annotate {kind} -n {namespace} {name} {}=true",
        annotations::ABANDON
    )
}

/// What is left at servers, each with its name, and what to do about it.
pub(crate) fn leftovers_message<'a>(
    all: impl Iterator<Item = (&'a str, &'a str, &'a ServerBinding)>,
    kind: &str,
    object: &ObjectMeta,
) -> String {
    let one = |(what, name, at): (&str, &str, &ServerBinding)| {
        let (url, secret) = (&at.server_url, &at.token_secret_ref.name);
        format!("the {what} {name} at {url} (token in the Secret {secret})")
    };
    let left: Vec<_> = all.map(one).collect();
    let namespace = object.namespace.as_deref().unwrap_or_default();
    let name = object.name.as_deref().unwrap_or_default();
    format!(
        "left behind: {}. The Secret is gone, holds another token, or does not name that server in its \
         annotation {}: put that right, or delete there by hand what is left and run: kubectl annotate \
         {kind} -n {namespace} {name} {}=true",
        left.join(", "),
        annotations::SERVERS,
        annotations::ABANDON
    )
}
