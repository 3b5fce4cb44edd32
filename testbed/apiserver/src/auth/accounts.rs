//! Tokens of service accounts: what they claim, and whether that is still so.

use aplomb_apimachinery::object;
use aplomb_apimachinery::status::ApiError;
use serde_json::{Map, Value, json};

use super::tokens::{self, Tokens};
use crate::call::User;
use crate::server::ApiServer;

/// Who signs the tokens, and whom they are for unless they say otherwise.
pub const ISSUER: &str = "https://kubernetes.default.svc";

/// How far clocks may be apart.
const LEEWAY: i64 = 60;
const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

/// Whom a token was made for, besides its account.
#[derive(Debug, Default)]
pub(crate) struct Bound<'a> {
    pub(crate) pod: Option<&'a Value>,
    pub(crate) secret: Option<&'a Value>,
    pub(crate) node: Option<&'a Value>,
}

/// From when to when a token is good, in seconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validity {
    pub(crate) from: i64,
    pub(crate) until: i64,
    /// Using it later than this is worth a warning.
    pub(crate) warn_after: Option<i64>,
}

/// What a token of an account says.
pub(crate) fn claims(account: &Value, bound: &Bound<'_>, audiences: &Value, validity: Validity, id: &str) -> Value {
    let (namespace, name) = (object::namespace(account), object::name(account));
    let mut private = json!({ "namespace": namespace, "serviceaccount": reference(account) });
    for (member, object) in [("pod", bound.pod), ("secret", bound.secret), ("node", bound.node)] {
        if let Some(object) = object {
            private[member] = reference(object);
        }
    }
    if let Some(after) = validity.warn_after {
        private["warnafter"] = after.into();
    }
    json!({
        "iss": ISSUER,
        "sub": format!("system:serviceaccount:{namespace}:{name}"),
        "aud": audiences,
        "iat": validity.from,
        "nbf": validity.from,
        "exp": validity.until,
        "jti": id,
        "kubernetes.io": private,
    })
}

fn reference(object: &Value) -> Value {
    let mut reference = Map::new();
    reference.insert("name".into(), object::name(object).into());
    if !object::uid(object).is_empty() {
        reference.insert("uid".into(), object::uid(object).into());
    }
    Value::Object(reference)
}

/// The user of an `Authorization` header: of the token table, or a service account.
///
/// # Errors
/// 401 for a bearer token that is nobody's.
pub fn authenticate(server: &ApiServer, tokens: &Tokens, authorization: &str) -> Result<User, ApiError> {
    let known = tokens.authenticate(authorization);
    let (Err(_), Some(token)) = (&known, tokens::bearer(authorization)) else {
        return known;
    };
    match account(server, token, &[ISSUER]) {
        Some(Ok((user, _))) => Ok(user),
        _ => known,
    }
}

/// The account a token stands for and the audiences it is good for among `wanted`; `None` when it
/// is no token of an account at all.
pub(crate) fn account(server: &ApiServer, token: &str, wanted: &[&str]) -> Option<Result<(User, Vec<String>), String>> {
    let claims = server.signer().claims(token)?;
    Some(judge(server, &claims, wanted))
}

fn judge(server: &ApiServer, claims: &Value, wanted: &[&str]) -> Result<(User, Vec<String>), String> {
    let stated: Vec<&str> = claims["aud"]
        .as_array()
        .map(|all| all.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let meant: Vec<String> = stated
        .iter()
        .filter(|audience| wanted.contains(audience))
        .map(ToString::to_string)
        .collect();
    if meant.is_empty() {
        let quoted = |all: &[&str]| {
            let all: Vec<String> = all
                .iter()
                .map(|one| aplomb_apimachinery::field::go_quote(one))
                .collect();
            all.join(" ")
        };
        return Err(format!(
            "token audiences [{}] is invalid for the target audiences [{}]",
            quoted(&stated),
            quoted(wanted)
        ));
    }
    check_time(claims, server.clock().now().as_second())?;
    check_objects(server, &claims["kubernetes.io"])?;
    Ok((user(claims), meant))
}

fn check_time(claims: &Value, now: i64) -> Result<(), String> {
    let at = |member: &str| claims[member].as_i64().unwrap_or(0);
    if now - LEEWAY > at("exp") {
        return Err("service account token has expired".into());
    }
    if now + LEEWAY < at("nbf") {
        return Err("service account token is not valid yet".into());
    }
    Ok(())
}

/// The account, and what the token is bound to, must be there and be the same as then.
fn check_objects(server: &ApiServer, private: &Value) -> Result<(), String> {
    let namespace = object::text(private, "namespace");
    let kinds = [
        ("serviceaccount", "serviceaccounts", namespace, "service account"),
        ("pod", "pods", namespace, "pod"),
        ("secret", "secrets", namespace, "secret"),
        ("node", "nodes", "", "node"),
    ];
    for (member, plural, namespace, word) in kinds {
        let claimed = &private[member];
        let of_pod = member == "node" && !private["pod"].is_null();
        if claimed.is_null() || of_pod {
            continue;
        }
        let name = object::text(claimed, "name");
        let Some(found) = server.get("", plural, namespace, name) else {
            return Err(match member {
                "serviceaccount" => format!("{plural} {} not found", aplomb_apimachinery::field::go_quote(name)),
                _ => "service account token has been invalidated".into(),
            });
        };
        let (stated, uid) = (object::text(claimed, "uid"), object::uid(&found));
        if stated != uid {
            return Err(format!("{word} UID ({uid}) does not match claim ({stated})"));
        }
    }
    Ok(())
}

fn user(claims: &Value) -> User {
    let private = &claims["kubernetes.io"];
    let namespace = object::text(private, "namespace");
    let mut user = User {
        name: object::text(claims, "sub").to_owned(),
        uid: object::text(&private["serviceaccount"], "uid").to_owned(),
        groups: vec![
            "system:serviceaccounts".into(),
            format!("system:serviceaccounts:{namespace}"),
        ],
        ..User::default()
    };
    let id = format!("JTI={}", object::text(claims, "jti"));
    user.extra.insert(CREDENTIAL.into(), vec![id]);
    for kind in ["pod", "node"] {
        for member in ["name", "uid"] {
            let value = object::text(&private[kind], member);
            if !value.is_empty() {
                let key = format!("authentication.kubernetes.io/{kind}-{member}");
                user.extra.insert(key, vec![value.to_owned()]);
            }
        }
    }
    tokens::with_authenticated(user)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{Call, Outcome, Verb};
    use crate::subresource::{self, Subresource};

    async fn called(server: &ApiServer, verb: Verb, name: &str) -> Value {
        let accounts = server.resource("", "v1", "serviceaccounts");
        let account = json!({ "metadata": { "name": "robot" } });
        let call = Call::new(verb, accounts.expect("accounts are served"));
        let call = call.namespace("default").name(name).body(&account);
        match server.call(call).await.expect("accepted") {
            Outcome::Object { object, .. } => Value::clone(&object),
            other => panic!("{other:?}"),
        }
    }

    async fn token(server: &ApiServer) -> String {
        let accounts = server.resource("", "v1", "serviceaccounts");
        let call = Call::new(Verb::Create, accounts.expect("accounts are served"))
            .namespace("default")
            .name("robot")
            .body(&json!({ "spec": { "expirationSeconds": 600 } }));
        match subresource::handle(server, Subresource::Token, call).await {
            Ok(Outcome::Object { object, .. }) => {
                let token = object.pointer("/status/token").and_then(Value::as_str);
                token.expect("a token").to_owned()
            }
            other => panic!("{other:?}"),
        }
    }

    fn user_of(server: &ApiServer, token: &str) -> Result<User, ApiError> {
        authenticate(server, &Tokens::default(), &format!("Bearer {token}"))
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_its_account_until_it_expires() {
        let epoch = "2030-01-01T00:00:00Z".parse().expect("a time");
        let server = ApiServer::builder()
            .clock(aplomb_apimachinery::clock::Clock::new(epoch, 1))
            .build();
        called(&server, Verb::Create, "robot").await;
        let token = token(&server).await;
        let user = user_of(&server, &token).expect("known");
        assert_eq!(user.name, "system:serviceaccount:default:robot");
        assert_eq!(user.groups[1], "system:serviceaccounts:default");
        assert!(user.extra[CREDENTIAL][0].starts_with("JTI="));
        tokio::time::advance(std::time::Duration::from_secs(700)).await;
        assert_eq!(user_of(&server, &token).map_err(|e| e.code), Err(401));
    }

    #[tokio::test]
    async fn a_token_goes_with_its_account_and_another_of_the_name_does_not_bring_it_back() {
        let server = ApiServer::builder().build();
        called(&server, Verb::Create, "robot").await;
        let token = token(&server).await;
        called(&server, Verb::Delete, "robot").await;
        assert_eq!(user_of(&server, &token).map_err(|e| e.code), Err(401));
        called(&server, Verb::Create, "robot").await;
        assert_eq!(user_of(&server, &token).map_err(|e| e.code), Err(401));
    }
}
