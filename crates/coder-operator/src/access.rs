//! Resolves the server and token of an object. Only this module pairs a URL with a token: a server
//! that an object names gets a token only if the token's Secret lists that server, because a user
//! who may create objects is not necessarily allowed to read the Secrets next to them.

use std::collections::BTreeSet;
use std::fmt::Write;

use aplomb::{Cache, ObjectKey, View};
use aplomb_api::coder::{CoderServerRef, ControlPlaneRef, SecretKeyRef, ServerBinding, annotations, reasons};
use aplomb_http_client::ApiToken;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;

use crate::client::ServerUrl;
use crate::views::ControlPlaneView;

/// Hex digits of a token's digest that serve as its fingerprint.
const FINGERPRINT_LENGTH: usize = 12;

/// A server and the token that the current spec pairs with it.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) url: String,
    pub(crate) ca: Option<String>,
    pub(crate) token: ApiToken,
    pub(crate) binding: ServerBinding,
    /// The CoderControlPlane that names the server, if one does.
    pub(crate) control_plane: Option<String>,
    /// The image in the CoderControlPlane.
    pub(crate) image: Option<String>,
}

/// Why the server or its token cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AccessDenied {
    /// Whether the server is missing, and not the token.
    pub(crate) server_missing: bool,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// The server fields of an object's spec.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerClaim<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) control_plane: Option<&'a ControlPlaneRef>,
    pub(crate) server: Option<&'a CoderServerRef>,
}

/// Fingerprint of a token: identifies it without revealing it.
pub(crate) fn fingerprint(token: &ApiToken) -> String {
    hex(&token.digest(), FINGERPRINT_LENGTH)
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

/// Resolves the server and the token of an object.
pub(crate) fn resolve_access(
    claim: ServerClaim<'_>,
    planes: &Cache<ControlPlaneView>,
    secrets: &Cache<Secret>,
) -> Result<Access, AccessDenied> {
    match (claim.server, claim.control_plane) {
        (Some(server), _) => from_spec(claim, server, secrets),
        (None, Some(plane)) => from_control_plane(claim, &plane.name, planes, secrets),
        (None, None) => Err(server_denied(
            reasons::CONTROL_PLANE_UNAVAILABLE,
            "neither controlPlaneRef nor server is set: set one of them".to_owned(),
        )),
    }
}

fn server_denied(reason: &'static str, message: String) -> AccessDenied {
    AccessDenied {
        server_missing: true,
        reason,
        message,
    }
}

fn token_denied(reason: &'static str, message: String) -> AccessDenied {
    AccessDenied {
        server_missing: false,
        reason,
        message,
    }
}

fn from_spec(claim: ServerClaim<'_>, server: &CoderServerRef, secrets: &Cache<Secret>) -> Result<Access, AccessDenied> {
    let reference = &server.token_secret_ref;
    let (secret, token) = usable_token(claim.namespace, reference, secrets)?;
    let url = normalize_url(&server.url);
    if !lists_server(&secret, &url) {
        return Err(token_denied(
            reasons::TOKEN_OF_OTHER_SERVER,
            unlisted_message(&secret, claim.namespace, &url),
        ));
    }
    Ok(Access {
        binding: ServerBinding {
            ca_bundle: server.ca_bundle.clone(),
            ..new_binding(&url, reference, fingerprint(&token))
        },
        url,
        ca: server.ca_bundle.clone(),
        token,
        control_plane: None,
        image: None,
    })
}

fn from_control_plane(
    claim: ServerClaim<'_>,
    name: &str,
    planes: &Cache<ControlPlaneView>,
    secrets: &Cache<Secret>,
) -> Result<Access, AccessDenied> {
    let unavailable = |message| server_denied(reasons::CONTROL_PLANE_UNAVAILABLE, message);
    let found = planes.get(&ObjectKey::new(Some(claim.namespace), name));
    let Some(plane) = found.filter(|plane| !plane.meta().deleting) else {
        return Err(unavailable(format!(
            "CoderControlPlane {name} does not exist: create it, correct controlPlaneRef.name, or \
             set server.url"
        )));
    };
    let url = plane.status.url.as_deref().filter(|url| !url.is_empty());
    let Some(url) = url.map(normalize_url) else {
        return Err(unavailable(format!("CoderControlPlane {name} has no status.url yet")));
    };
    let secret = plane.status.operator_token_secret_ref.as_ref();
    let Some(reference) = secret.and_then(|it| it.secret_ref()) else {
        return Err(token_denied(
            reasons::TOKEN_REF_MISSING,
            format!("CoderControlPlane {name} has no token Secret in its status yet"),
        ));
    };
    if !plane.status.operator_access_ready {
        return Err(token_denied(
            reasons::ACCESS_NOT_READY,
            format!("CoderControlPlane {name} has no operator access yet"),
        ));
    }
    let (_, token) = usable_token(claim.namespace, &reference, secrets)?;
    Ok(Access {
        binding: ServerBinding {
            control_plane: Some(name.to_owned()),
            ..new_binding(&url, &reference, fingerprint(&token))
        },
        url,
        ca: None,
        token,
        control_plane: Some(name.to_owned()),
        image: plane.spec.image.clone().filter(|image| !image.is_empty()),
    })
}

/// The token that a record was bound to, if its Secret still has it and still allows the server.
pub(crate) fn bound_token(namespace: &str, binding: &ServerBinding, secrets: &Cache<Secret>) -> Option<ApiToken> {
    let (secret, token) = read_token(namespace, &binding.token_secret_ref, secrets).ok()?;
    let allowed = binding.control_plane.is_some() || lists_server(&secret, &binding.server_url);
    (allowed && fingerprint(&token) == binding.token_fingerprint).then_some(token)
}

/// Like `token`, for new keys and proxies: rejects a Secret that is being deleted, which is kept
/// only for cleanup.
fn usable_token(
    namespace: &str,
    reference: &SecretKeyRef,
    secrets: &Cache<Secret>,
) -> Result<(std::sync::Arc<Secret>, ApiToken), AccessDenied> {
    let (secret, token) = read_token(namespace, reference, secrets)?;
    if secret.metadata.deletion_timestamp.is_none() {
        return Ok((secret, token));
    }
    let name = &reference.name;
    Err(token_denied(
        reasons::TOKEN_UNAVAILABLE,
        format!(
            "Secret {name} is being deleted and kept only for cleanup: name another token Secret, \
             or delete this object"
        ),
    ))
}

fn read_token(
    namespace: &str,
    reference: &SecretKeyRef,
    secrets: &Cache<Secret>,
) -> Result<(std::sync::Arc<Secret>, ApiToken), AccessDenied> {
    let SecretKeyRef { name, key } = reference;
    let found = secrets.get(&ObjectKey::new(Some(namespace), name));
    let missing = |message| token_denied(reasons::TOKEN_UNAVAILABLE, message);
    let secret = found.ok_or_else(|| {
        missing(format!(
            "Secret {name} of type Opaque does not exist: create it with the token in key {key}"
        ))
    })?;
    let value = secret.data.as_ref().and_then(|data| data.get(key));
    let text = value.and_then(|bytes| std::str::from_utf8(&bytes.0).ok());
    let token = text
        .and_then(ApiToken::new)
        .ok_or_else(|| missing(format!("Secret {name} has no token in key {key}: add it")))?;
    Ok((secret, token))
}

fn new_binding(url: &str, reference: &SecretKeyRef, fingerprint: String) -> ServerBinding {
    ServerBinding {
        server_url: url.to_owned(),
        control_plane: None,
        ca_bundle: None,
        token_secret_ref: reference.clone(),
        token_fingerprint: fingerprint,
    }
}

/// Whether a Secret lists `url` as a server for its token.
fn lists_server(secret: &Secret, url: &str) -> bool {
    ServerUrl::parse(url).is_ok_and(|url| listed_servers(secret).contains(&url))
}

/// The servers that a Secret lists for its token. Invalid URLs are skipped.
fn listed_servers(secret: &Secret) -> BTreeSet<ServerUrl> {
    let annotations = secret.metadata.annotations.as_ref();
    let list = annotations.and_then(|all| all.get(annotations::SERVERS));
    let parts = list.into_iter().flat_map(|it| it.split([',', ' ', '\n', '\t']));
    parts.filter_map(|it| ServerUrl::parse(it).ok()).collect()
}

/// The message for a Secret that does not list the server. Its command keeps the servers already
/// listed.
fn unlisted_message(secret: &Secret, namespace: &str, url: &str) -> String {
    let Ok(base) = ServerUrl::parse(url) else {
        return "server.url is not a valid server URL: correct it".to_owned();
    };
    let mut all = listed_servers(secret);
    all.insert(base);
    let all: Vec<_> = all.iter().map(ServerUrl::url).collect();
    let name = secret.name_any();
    let value = shell_quote(&format!("{}={}", annotations::SERVERS, all.join(",")));
    format!(
        "Secret {name} does not allow sending its token to {url}. To allow it, run: kubectl \
         annotate secret -n {namespace} {name} {value} --overwrite"
    )
}

/// Quotes a shell word, so that a crafted URL cannot change the command that a user pastes.
fn shell_quote(word: &str) -> String {
    let plain = |sign: char| sign.is_ascii_alphanumeric() || "-._~:/,=%".contains(sign);
    match word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Normalizes a URL, so that case, default port and trailing slashes do not make two servers of
/// one.
pub(crate) fn normalize_url(url: &str) -> String {
    ServerUrl::parse(url).map_or_else(|_| url.to_owned(), |base| base.url().to_owned())
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
            assert_eq!(normalize_url(url), "https://coder.example.com");
        }
        assert_eq!(normalize_url("http://192.0.2.1:3000"), "http://192.0.2.1:3000");
        assert_eq!(normalize_url("http://example.com/Coder"), "http://example.com/Coder");
    }

    fn token_secret(servers: &str) -> Secret {
        let annotations = serde_json::json!({ annotations::SERVERS: servers });
        let metadata = serde_json::json!({ "name": "token", "annotations": annotations });
        serde_json::from_value(serde_json::json!({ "metadata": metadata })).expect("a Secret")
    }

    #[test]
    fn a_token_is_for_the_servers_that_its_secret_names_and_for_no_other() {
        const URL: &str = "https://coder.example.com";
        for list in [
            URL,
            "HTTPS://Coder.Example.com:443//",
            "https://other.example.com, https://coder.example.com/",
            "https://other.example.com\nhttps://coder.example.com",
            "nonsense,,https://coder.example.com",
        ] {
            assert!(lists_server(&token_secret(list), URL), "{list}");
        }
        for list in [
            "",
            "*",
            "coder.example.com",
            "http://coder.example.com",
            "http://coder.example.com:443",
            "https://coder.example.com:8443",
            "https://coder.example.com.evil.test",
            "https://coder.example.co",
            "https://a.coder.example.com",
            "https://coder.example.com@evil.test",
            "https://me@coder.example.com",
            "https://coder.example.com/path",
            "https://coder.example.com./",
            "https://coder.example.com?x",
            "https://c\u{43e}der.example.com",
        ] {
            assert!(!lists_server(&token_secret(list), URL), "{list}");
        }
        assert!(!lists_server(&token_secret(URL), "https://coder.example.com.evil.test"));
        assert!(!lists_server(
            &token_secret("https://[2001:db8::1]"),
            "https://[2001:db8::2]"
        ));
        assert!(lists_server(
            &token_secret("https://[2001:DB8::1]:443/"),
            "https://[2001:db8::1]"
        ));
        assert!(!lists_server(&Secret::default(), URL));
    }

    #[test]
    fn the_command_names_all_servers_and_escapes_the_url() {
        let secret = token_secret("https://b.example.com https://a.example.com/");
        let told = unlisted_message(&secret, "team", "https://c.example.com");
        let command = "kubectl annotate secret -n team token coder.aplomb.dev/servers=\
            https://a.example.com,https://b.example.com,https://c.example.com --overwrite";
        assert!(told.ends_with(command), "{told}");
        for (url, word) in [
            ("https://a;reboot", "'key=https://a;reboot'"),
            ("https://a$(reboot)", "'key=https://a$(reboot)'"),
            ("https://a';reboot;'", r"'key=https://a'\'';reboot;'\'''"),
            ("https://[::1]:3000", "'key=https://[::1]:3000'"),
        ] {
            assert_eq!(shell_quote(&format!("key={url}")), word);
        }
    }

    #[test]
    fn a_fingerprint_is_not_part_of_the_token() {
        let token = ApiToken::new("abcdefabcdefabcdef").expect("a token");
        let print = fingerprint(&token);
        assert_eq!(print.len(), FINGERPRINT_LENGTH);
        assert!(!"abcdefabcdefabcdef".contains(&print), "{print}");
    }
}
