//! Which server an object belongs to and which token may be sent there. The one place that pairs a URL
//! with a token: a token that was given for one server is never sent to another.

use std::fmt::Write;

use aplomb::{Cache, Key, View};
use aplomb_api::coder::{Binding, ControlPlaneRef, SecretKeyRef, Server, annotations, reasons};
use aplomb_remote::Token;
use k8s_openapi::api::core::v1::Secret;

use crate::views::ControlPlaneView;

/// How many characters of a token's digest tell it from others.
const FINGERPRINT: usize = 12;

/// A server and the token that today's spec pairs with it.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) url: String,
    pub(crate) ca: Option<String>,
    pub(crate) token: Token,
    pub(crate) binding: Binding,
    /// The CoderControlPlane, if it is one.
    pub(crate) control_plane: Option<String>,
    /// The image of the control plane.
    pub(crate) image: Option<String>,
}

/// Why there is no way to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Denied {
    /// Whether it is the server that is missing, and not the token.
    pub(crate) no_server: bool,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// What an object says of its server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) control_plane: Option<&'a ControlPlaneRef>,
    pub(crate) server: Option<&'a Server>,
    /// Where its keys or proxies are now.
    pub(crate) bound: &'a [&'a Binding],
}

/// What tells a token from others without being one.
pub(crate) fn fingerprint(token: &Token) -> String {
    hex(&token.digest(), FINGERPRINT)
}

/// The first `most` hex digits of `bytes`.
pub(crate) fn hex(bytes: &[u8], most: usize) -> String {
    let mut text = String::with_capacity(most + 1);
    for byte in bytes.iter().take(most.div_ceil(2)) {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text.truncate(most);
    text
}

/// Finds the server and the token of an object.
pub(crate) fn resolve(
    claim: Claim<'_>,
    planes: &Cache<ControlPlaneView>,
    secrets: &Cache<Secret>,
) -> Result<Access, Denied> {
    match (claim.server, claim.control_plane) {
        (Some(server), _) => explicit(claim, server, secrets),
        (None, Some(plane)) => by_control_plane(claim, &plane.name, planes, secrets),
        (None, None) => Err(no_server(
            reasons::CONTROL_PLANE_UNAVAILABLE,
            "neither controlPlaneRef nor server is set: name the server with one of them"
                .to_owned(),
        )),
    }
}

fn no_server(reason: &'static str, message: String) -> Denied {
    Denied {
        no_server: true,
        reason,
        message,
    }
}

fn no_token(reason: &'static str, message: String) -> Denied {
    Denied {
        no_server: false,
        reason,
        message,
    }
}

fn explicit(claim: Claim<'_>, server: &Server, secrets: &Cache<Secret>) -> Result<Access, Denied> {
    let (secret, token) = token(claim.namespace, &server.token_secret_ref, secrets)?;
    let url = normal(&server.url);
    let print = fingerprint(&token);
    let theirs = |it: &&&Binding| it.server_url != url && it.token_fingerprint == print;
    if let Some(bound) = claim.bound.iter().find(theirs)
        && !listed(&secret, &url)
    {
        let Binding { server_url, .. } = bound;
        let name = &server.token_secret_ref.name;
        return Err(no_token(
            reasons::TOKEN_OF_OTHER_SERVER,
            format!(
                "the Secret {name} still holds the token of {server_url}, which is not sent to {url}: put \
                 a token of {url} into it, or, if both are the same server, set its annotation {} to {url}",
                annotations::SERVERS
            ),
        ));
    }
    Ok(Access {
        binding: Binding {
            ca_bundle: server.ca_bundle.clone(),
            ..binding(&url, &server.token_secret_ref, print)
        },
        url,
        ca: server.ca_bundle.clone(),
        token,
        control_plane: None,
        image: None,
    })
}

fn by_control_plane(
    claim: Claim<'_>,
    name: &str,
    planes: &Cache<ControlPlaneView>,
    secrets: &Cache<Secret>,
) -> Result<Access, Denied> {
    let unavailable = |message| no_server(reasons::CONTROL_PLANE_UNAVAILABLE, message);
    let found = planes.get(&Key::new(Some(claim.namespace), name));
    let Some(plane) = found.filter(|plane| !plane.meta().deleting) else {
        return Err(unavailable(format!(
            "there is no CoderControlPlane {name} in this namespace: create it, correct \
             controlPlaneRef.name, or name the server with server.url"
        )));
    };
    let url = plane.status.url.as_deref().filter(|url| !url.is_empty());
    let Some(url) = url.map(normal) else {
        return Err(unavailable(format!(
            "the CoderControlPlane {name} has no status.url yet"
        )));
    };
    let secret = plane.status.operator_token_secret_ref.as_ref();
    let Some(reference) = secret.and_then(|it| it.secret()) else {
        return Err(no_token(
            reasons::TOKEN_REF_MISSING,
            format!("the CoderControlPlane {name} names no token Secret in its status yet"),
        ));
    };
    if !plane.status.operator_access_ready {
        return Err(no_token(
            reasons::ACCESS_NOT_READY,
            format!("the CoderControlPlane {name} has no operator access yet"),
        ));
    }
    let (_, token) = token(claim.namespace, &reference, secrets)?;
    Ok(Access {
        binding: binding(&url, &reference, fingerprint(&token)),
        url,
        ca: None,
        token,
        control_plane: Some(name.to_owned()),
        image: plane.spec.image.clone().filter(|image| !image.is_empty()),
    })
}

/// The token that was bound to the server of a record, if it is still where it was.
pub(crate) fn bound_token(
    namespace: &str,
    binding: &Binding,
    secrets: &Cache<Secret>,
) -> Option<Token> {
    let (_, token) = token(namespace, &binding.token_secret_ref, secrets).ok()?;
    (fingerprint(&token) == binding.token_fingerprint).then_some(token)
}

fn token(
    namespace: &str,
    reference: &SecretKeyRef,
    secrets: &Cache<Secret>,
) -> Result<(std::sync::Arc<Secret>, Token), Denied> {
    let SecretKeyRef { name, key } = reference;
    let found = secrets.get(&Key::new(Some(namespace), name));
    let missing = |message| no_token(reasons::TOKEN_UNAVAILABLE, message);
    let secret = found.ok_or_else(|| {
        missing(format!(
            "there is no Secret {name} of type Opaque in this namespace: create it with the token under \
             the key {key}"
        ))
    })?;
    let value = secret.data.as_ref().and_then(|data| data.get(key));
    let text = value.and_then(|bytes| std::str::from_utf8(&bytes.0).ok());
    let token = text.and_then(Token::new).ok_or_else(|| {
        missing(format!(
            "the Secret {name} has no token under the key {key}: add it"
        ))
    })?;
    Ok((secret, token))
}

fn binding(url: &str, reference: &SecretKeyRef, fingerprint: String) -> Binding {
    Binding {
        server_url: url.to_owned(),
        ca_bundle: None,
        token_secret_ref: reference.clone(),
        token_fingerprint: fingerprint,
    }
}

/// Whether a Secret says itself that its token is meant for `url`.
fn listed(secret: &Secret, url: &str) -> bool {
    let annotations = secret.metadata.annotations.as_ref();
    let servers = annotations.and_then(|all| all.get(annotations::SERVERS));
    servers.is_some_and(|list| list.split(',').any(|one| normal(one) == url))
}

/// One spelling of a URL, so that a slash makes no other server of it.
pub(crate) fn normal(url: &str) -> String {
    let url = url.trim().trim_end_matches('/');
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let (scheme, host) = (scheme.to_ascii_lowercase(), host.to_ascii_lowercase());
            let usual = if scheme == "https" { ":443" } else { ":80" };
            let host = host.strip_suffix(usual).unwrap_or(&host);
            format!("{scheme}://{host}{path}")
        }
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_has_one_spelling() {
        for url in [
            "https://coder.example.com",
            "https://coder.example.com/",
            "HTTPS://Coder.example.com:443/",
        ] {
            assert_eq!(normal(url), "https://coder.example.com");
        }
        assert_eq!(normal("http://192.0.2.1:3000"), "http://192.0.2.1:3000");
        assert_eq!(
            normal("http://example.com/Coder"),
            "http://example.com/Coder"
        );
    }

    #[test]
    fn a_fingerprint_is_no_part_of_the_token() {
        let token = Token::new("abcdefabcdefabcdef").expect("a token");
        let print = fingerprint(&token);
        assert_eq!(print.len(), FINGERPRINT);
        assert!(!"abcdefabcdefabcdef".contains(&print), "{print}");
    }
}
