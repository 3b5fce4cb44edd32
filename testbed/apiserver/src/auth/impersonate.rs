//! Acting as somebody else: the `Impersonate-*` headers.
//!
//! Whoever uses them needs the `impersonate` verb on every user, group, uid and extra they name.

use std::collections::BTreeMap;

use aplomb_apimachinery::field::go_quote;
use aplomb_apimachinery::query::unescape;
use aplomb_apimachinery::status::ApiError;
use http::HeaderMap;

use super::rbac::{self, Attributes};
use super::tokens::with_authenticated;
use crate::call::User;
use crate::server::ApiServer;

const ACCOUNT: &str = "system:serviceaccount:";
const EXTRA: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";

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
        return match wanted == User::default() {
            true => Ok(None),
            false => Err(nameless(&wanted)),
        };
    }
    for needed in permissions(&wanted) {
        if !rbac::authorize(server, user, &needed).allowed {
            let verb = format!("impersonate-on:user-info:{}", asked.verb);
            let refused = Attributes { verb, ..asked.clone() };
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
        extra: extra_in(headers),
    }
}

/// What else is claimed, by the end of the header's name; a key that is badly escaped is taken as it is.
fn extra_in(headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        let (Some(key), Ok(value)) = (name.as_str().strip_prefix(EXTRA), value.to_str()) else {
            continue;
        };
        let key = unescape(key, false).unwrap_or_else(|| key.to_owned());
        extra.entry(key).or_default().push(value.to_owned());
    }
    extra
}

fn nameless(wanted: &User) -> ApiError {
    let groups = match go_list(&wanted.groups) {
        _ if wanted.groups.is_empty() => "[]string(nil)".to_owned(),
        groups => groups,
    };
    let extra: Vec<String> = wanted
        .extra
        .iter()
        .map(|(key, values)| format!("{}:{}", go_quote(key), go_list(values)))
        .collect();
    let extra = match extra.as_slice() {
        [] => "map[string][]string(nil)".to_owned(),
        some => format!("map[string][]string{{{}}}", some.join(", ")),
    };
    ApiError::bad_request(format!(
        "requested &user.DefaultInfo{{Name:\"\", UID:{}, Groups:{groups}, Extra:{extra}}} \
         without impersonating a user name",
        go_quote(&wanted.uid)
    ))
}

/// A list of texts as Go's `%#v` prints it.
fn go_list(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| go_quote(text)).collect();
    format!("[]string{{{}}}", quoted.join(", "))
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
    let account = wanted.name.strip_prefix(ACCOUNT).and_then(|rest| rest.split_once(':'));
    let mut needed = vec![match account {
        Some((namespace, name)) => ask("", "serviceaccounts", namespace, name),
        None => ask("", "users", "", &wanted.name),
    }];
    needed.extend(wanted.groups.iter().map(|group| ask("", "groups", "", group)));
    if !wanted.uid.is_empty() {
        needed.push(ask(AUTHENTICATION, "uids", "", &wanted.uid));
    }
    for (key, values) in &wanted.extra {
        needed.extend(values.iter().map(|value| Attributes {
            subresource: key.clone(),
            ..ask(AUTHENTICATION, "userextras", "", value)
        }));
    }
    needed
}

/// A service account is in its groups unless others were named.
fn with_account_groups(mut wanted: User) -> User {
    let account = wanted.name.strip_prefix(ACCOUNT).and_then(|rest| rest.split_once(':'));
    if let (Some((namespace, _)), true) = (account, wanted.groups.is_empty()) {
        wanted.groups.push("system:serviceaccounts".into());
        wanted.groups.push(format!("system:serviceaccounts:{namespace}"));
    }
    wanted
}
