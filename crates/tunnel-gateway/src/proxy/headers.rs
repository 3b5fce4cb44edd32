//! Headers between the two connections: hop-by-hop headers are removed, and forwarding headers are set.

use std::net::IpAddr;

use http::header::{
    CONNECTION, EXPECT, FORWARDED, HOST, HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
    TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, Version};

use super::error_response::ErrorResponse;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Hop-by-hop headers. `Trailer` is not among them: the next hop needs it to forward trailers.
const HOP_BY_HOP_HEADERS: [HeaderName; 9] = [
    CONNECTION,
    KEEP_ALIVE,
    PROXY_CONNECTION,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
    HTTP2_SETTINGS,
];

/// The requested hostname, in lower case and without a port, and as it was written.
pub(super) fn authority(head: &Parts) -> Result<(String, HeaderValue), ErrorResponse> {
    let mut hosts = head.headers.get_all(HOST).iter();
    let (host, again) = (hosts.next(), hosts.next());
    if again.is_some() {
        return Err(ErrorResponse::bad_request("more than one Host header"));
    }
    let written = match (head.uri.authority(), host) {
        // An absolute URI and :authority take precedence over Host.
        (Some(authority), _) => HeaderValue::from_str(authority.as_str())
            .map_err(|_| ErrorResponse::bad_request("the authority is not valid text"))?,
        (None, Some(host)) => host.clone(),
        (None, None) => return Err(ErrorResponse::bad_request("the Host header is missing")),
    };
    let text = written
        .to_str()
        .ok()
        .filter(|text| !text.contains('@'))
        .and_then(|text| text.parse::<http::uri::Authority>().ok())
        .ok_or_else(|| ErrorResponse::bad_request("Host is not a hostname"))?;
    let name = text.host().trim_end_matches('.').to_ascii_lowercase();
    if name.is_empty() {
        return Err(ErrorResponse::bad_request("Host is empty"));
    }
    Ok((name, written))
}

/// Removes hop-by-hop headers and those that `Connection` lists.
pub(super) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .filter_map(|name| HeaderName::from_bytes(name.trim().as_bytes()).ok())
        .collect();
    for name in HOP_BY_HOP_HEADERS.into_iter().chain(named) {
        headers.remove(name);
    }
}

/// Whether a comma-separated header contains `name`.
pub(super) fn has_token(headers: &HeaderMap, header: &HeaderName, name: &str) -> bool {
    headers
        .get_all(header)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .any(|each| each.trim().eq_ignore_ascii_case(name))
}

/// The protocol that a client requests to upgrade to.
pub(super) fn upgrade_protocol(head: &Parts) -> Option<HeaderValue> {
    let wanted = head.version == Version::HTTP_11 && has_token(&head.headers, &CONNECTION, "upgrade");
    head.headers.get(UPGRADE).filter(|_| wanted).cloned()
}

/// Whether an HTTP/1.1 client waits for "100 Continue". HTTP/2 clients do not get it.
pub(super) fn expects_continue(head: &Parts) -> bool {
    head.version == Version::HTTP_11 && has_token(&head.headers, &EXPECT, "100-continue")
}

/// Whether a client accepts trailers.
pub(super) fn accepts_trailers(head: &Parts) -> bool {
    has_token(&head.headers, &TE, "trailers")
}

/// The client, the requested host, and the protocol.
#[derive(Clone, Copy, Debug)]
pub(super) struct ForwardedInfo<'a> {
    pub(super) client: IpAddr,
    pub(super) tls: bool,
    pub(super) host: &'a HeaderValue,
    pub(super) trusted: bool,
}

/// Sets the forwarding headers. Those of an untrusted client are dropped.
pub(super) fn set_forwarded_headers(headers: &mut HeaderMap, asked: ForwardedInfo<'_>) {
    let client = asked.client.to_canonical().to_string();
    let mut clients = client.clone();
    if asked.trusted {
        let before = headers.get_all(FORWARDED_FOR).iter();
        let before: Vec<&str> = before.filter_map(|it| it.to_str().ok()).collect();
        if !before.is_empty() {
            clients = format!("{}, {client}", before.join(", "));
        }
    } else {
        headers.remove(FORWARDED);
        headers.remove(FORWARDED_PROTO);
        headers.remove(FORWARDED_HOST);
    }
    let clients = HeaderValue::try_from(clients);
    headers.insert(FORWARDED_FOR, clients.expect("made of visible characters"));
    let proto = HeaderValue::from_static(if asked.tls { "https" } else { "http" });
    headers.entry(FORWARDED_PROTO).or_insert(proto);
    let host = asked.host.clone();
    headers.entry(FORWARDED_HOST).or_insert(host);
}

/// The client's request id, if it contains only safe characters.
pub(super) fn client_request_id(headers: &HeaderMap) -> Option<String> {
    let given = headers.get(REQUEST_ID)?.to_str().ok()?;
    let harmless = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    let fits = (1..=64).contains(&given.len()) && given.bytes().all(harmless);
    fits.then(|| given.to_owned())
}

#[cfg(test)]
mod tests;
