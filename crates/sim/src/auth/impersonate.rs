//! Acting as somebody else: the `Impersonate-*` headers.
//!
//! Whoever uses them needs the `impersonate` verb on every user, group and uid they name.

use http::HeaderMap;

use super::rbac::{self, Attributes};
use super::tokens::with_authenticated;
use crate::call::User;
use crate::field::go_quote;
use crate::server::ApiServer;
use crate::status::ApiError;

const ACCOUNT: &str = "system:serviceaccount:";

/// The user a request wants to be taken for; `None` when it wants nothing of the kind.
///
/// # Errors
/// 400 without a user name, 403 without permission. `asked` is what the request is about, which is
/// what a refusal names.
pub fn apply(
    server: &ApiServer,
    user: &User,
    headers: &HeaderMap,
    asked: &Attributes,
) -> Result<Option<User>, ApiError> {
    let wanted = named_in(headers);
    if wanted.name.is_empty() {
        let nothing = wanted.uid.is_empty() && wanted.groups.is_empty();
        return if nothing {
            Ok(None)
        } else {
            Err(nameless(&wanted))
        };
    }
    for needed in permissions(&wanted) {
        if !rbac::authorize(server, user, &needed).allowed {
            let verb = format!("impersonate-on:user-info:{}", asked.verb);
            let refused = Attributes {
                verb,
                ..asked.clone()
            };
            return Err(rbac::refusal(user, &refused, ""));
        }
    }
    Ok(Some(with_authenticated(with_account_groups(wanted))))
}

fn named_in(headers: &HeaderMap) -> User {
    let text = |name: &str| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
            .to_owned()
    };
    let groups = headers
        .get_all("impersonate-group")
        .iter()
        .filter_map(|value| value.to_str().ok().map(str::to_owned))
        .collect();
    User {
        name: text("impersonate-user"),
        uid: text("impersonate-uid"),
        groups,
        ..User::default()
    }
}

fn nameless(wanted: &User) -> ApiError {
    let groups = if wanted.groups.is_empty() {
        "[]string(nil)".to_owned()
    } else {
        let quoted: Vec<String> = wanted.groups.iter().map(|group| go_quote(group)).collect();
        format!("[]string{{{}}}", quoted.join(", "))
    };
    ApiError::bad_request(format!(
        "requested &user.DefaultInfo{{Name:\"\", UID:{}, Groups:{groups}, Extra:map[string][]string(nil)}} \
         without impersonating a user name",
        go_quote(&wanted.uid)
    ))
}

/// What must be allowed to be taken for a user.
fn permissions(wanted: &User) -> Vec<Attributes> {
    let ask = |group: &str, resource: &str, namespace: &str, name: &str| Attributes {
        is_resource: true,
        verb: "impersonate".into(),
        group: group.into(),
        resource: resource.into(),
        namespace: namespace.into(),
        name: name.into(),
        ..Attributes::default()
    };
    let account = wanted
        .name
        .strip_prefix(ACCOUNT)
        .and_then(|rest| rest.split_once(':'));
    let mut needed = vec![match account {
        Some((namespace, name)) => ask("", "serviceaccounts", namespace, name),
        None => ask("", "users", "", &wanted.name),
    }];
    needed.extend(
        wanted
            .groups
            .iter()
            .map(|group| ask("", "groups", "", group)),
    );
    if !wanted.uid.is_empty() {
        needed.push(ask("authentication.k8s.io", "uids", "", &wanted.uid));
    }
    needed
}

/// A service account is in its groups unless others were named.
fn with_account_groups(mut wanted: User) -> User {
    let account = wanted
        .name
        .strip_prefix(ACCOUNT)
        .and_then(|rest| rest.split_once(':'));
    if let (Some((namespace, _)), true) = (account, wanted.groups.is_empty()) {
        wanted.groups.push("system:serviceaccounts".into());
        wanted
            .groups
            .push(format!("system:serviceaccounts:{namespace}"));
    }
    wanted
}
