//! Requests that turn their connection into something else: WebSocket and its like over HTTP/1.1, and
//! over a stream of HTTP/2 (RFC 8441). Bytes are passed on; what they mean is nobody's business here.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    CONNECTION, HeaderMap, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use hyper::body::Incoming;
use hyper::ext::Protocol;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::body::Body;
use super::core::Core;
use super::headers;
use super::record::Record;
use crate::pool::Lease;
use crate::reason;

/// How much is read before it is passed on.
const PIECE: usize = 32 * 1024;

/// A change of protocol that a client wants.
#[derive(Debug)]
pub(super) struct Wanted {
    protocol: HeaderValue,
    /// It came over a stream of HTTP/2, where there is no status 101.
    extended: bool,
}

impl Wanted {
    /// What a client wants, if anything. A request of HTTP/2 becomes the one that an origin of HTTP/1.1
    /// understands.
    pub(super) fn of(head: &mut Parts, core: &Core) -> Option<Self> {
        let Some(protocol) = head.extensions.remove::<Protocol>() else {
            let protocol = headers::upgrade(head)?;
            // With h2c a client would speak to the origin behind the back of every rule.
            let h2c = protocol.as_bytes().eq_ignore_ascii_case(b"h2c");
            let extended = false;
            return (!h2c).then_some(Self { protocol, extended });
        };
        head.method = Method::GET;
        let protocol = HeaderValue::from_str(protocol.as_str()).ok()?;
        if protocol == "websocket" {
            // It tells caches apart from origins, and is no secret.
            let key = STANDARD.encode(core.random().u128(..).to_be_bytes());
            let key = HeaderValue::try_from(key).expect("base64 is visible");
            head.headers.insert(SEC_WEBSOCKET_KEY, key);
            let version = HeaderValue::from_static("13");
            head.headers.entry(SEC_WEBSOCKET_VERSION).or_insert(version);
        }
        let extended = true;
        Some(Self { protocol, extended })
    }

    /// Asks the origin for it.
    pub(super) fn ask(&self, headers: &mut HeaderMap) {
        headers.insert(UPGRADE, self.protocol.clone());
        headers.append(CONNECTION, HeaderValue::from_static("upgrade"));
    }
}

/// Joins the client with an origin that has agreed, and tells the client.
pub(super) fn join(
    core: &Core,
    wanted: &Wanted,
    client: OnUpgrade,
    (mut response, lease): (Response<Incoming>, Lease),
    mut record: Record,
) -> Response<Body> {
    let origin = hyper::upgrade::on(&mut response);
    let protocol = response.headers().get(UPGRADE).cloned();
    let headers = response.headers_mut();
    headers::strip(headers);
    if wanted.extended {
        headers.remove(SEC_WEBSOCKET_ACCEPT);
        *response.status_mut() = StatusCode::OK;
    } else {
        let protocol = protocol.unwrap_or_else(|| wanted.protocol.clone());
        headers.insert(UPGRADE, protocol);
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    }
    record.answered(response.status().as_u16(), None);
    core.crew.start(pass_on(client, origin, lease, record));
    response.map(|_| Body::nothing())
}

/// Passes bytes on until both sides have said all they had, or one breaks off. The lease is what drives
/// the origin's side until it has been handed over.
async fn pass_on(client: OnUpgrade, origin: OnUpgrade, lease: Lease, mut record: Record) {
    let _open = record.telemetry().upgraded();
    let (client, origin) = match futures::try_join!(client, origin) {
        Ok(both) => both,
        Err(error) => {
            tracing::debug!(%error, "A connection could not be taken over");
            return record.broke(reason::CLIENT_GONE);
        }
    };
    drop(lease);
    let (mut client, mut origin) = (TokioIo::new(client), TokioIo::new(origin));
    let copied =
        tokio::io::copy_bidirectional_with_sizes(&mut client, &mut origin, PIECE, PIECE).await;
    if let Ok((received, sent)) = copied {
        record.received(received);
        record.sent(sent);
    }
}
