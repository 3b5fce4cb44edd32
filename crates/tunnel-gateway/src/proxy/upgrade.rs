//! Protocol upgrades: WebSocket and others over HTTP/1.1, and over HTTP/2 streams (RFC 8441). Bytes are
//! forwarded without interpretation.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    CONNECTION, HeaderMap, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use hyper::body::Incoming;
use hyper::ext::Protocol;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional_with_sizes;
use tokio::time::timeout;

use super::headers;
use super::request_record::RequestRecord;
use super::response_body::ResponseBody;
use super::shared::ProxyShared;
use super::streams::{ByteCounter, CountingStream};
use crate::origin::pool::PooledConnection;
use crate::reason;

const BUFFER_BYTES: usize = 32 * 1024;

/// A protocol upgrade that a client requests.
#[derive(Debug)]
pub(super) struct UpgradeRequest {
    protocol: HeaderValue,
    /// It came over an HTTP/2 stream, which has no status 101.
    extended: bool,
}

impl UpgradeRequest {
    /// The upgrade that a client requests, if any. An HTTP/2 request is converted to one for an HTTP/1.1 origin.
    pub(super) fn from_request(head: &mut Parts, core: &ProxyShared) -> Option<Self> {
        let Some(protocol) = head.extensions.remove::<Protocol>() else {
            let protocol = headers::upgrade_protocol(head)?;
            // With h2c a client would bypass the rules.
            let h2c = protocol.as_bytes().eq_ignore_ascii_case(b"h2c");
            let extended = false;
            return (!h2c).then_some(Self { protocol, extended });
        };
        head.method = Method::GET;
        let protocol = HeaderValue::from_str(protocol.as_str()).ok()?;
        if protocol == "websocket" {
            // The key only prevents caching and need not be secret.
            let key = STANDARD.encode(core.new_rng().u128(..).to_be_bytes());
            let key = HeaderValue::try_from(key).expect("base64 is visible");
            head.headers.insert(SEC_WEBSOCKET_KEY, key);
            let version = HeaderValue::from_static("13");
            head.headers.entry(SEC_WEBSOCKET_VERSION).or_insert(version);
        }
        let extended = true;
        Some(Self { protocol, extended })
    }

    pub(super) fn set_upgrade_headers(&self, headers: &mut HeaderMap) {
        headers.insert(UPGRADE, self.protocol.clone());
        headers.append(CONNECTION, HeaderValue::from_static("upgrade"));
    }
}

/// Connects the client with an origin that accepted the upgrade, and responds to the client.
pub(super) fn join_streams(
    core: &ProxyShared,
    wanted: &UpgradeRequest,
    client: OnUpgrade,
    (mut response, lease): (Response<Incoming>, PooledConnection),
    mut record: RequestRecord,
) -> Response<ResponseBody> {
    let origin = hyper::upgrade::on(&mut response);
    let protocol = response.headers().get(UPGRADE).cloned();
    let headers = response.headers_mut();
    headers::strip_hop_by_hop(headers);
    if wanted.extended {
        headers.remove(SEC_WEBSOCKET_ACCEPT);
        *response.status_mut() = StatusCode::OK;
    } else {
        let protocol = protocol.unwrap_or_else(|| wanted.protocol.clone());
        headers.insert(UPGRADE, protocol);
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    }
    record.record_response(response.status().as_u16(), None);
    let joined = UpgradedConnection {
        record,
        received: ByteCounter::default(),
        sent: ByteCounter::default(),
    };
    let idle = core.limits.upgrade_idle;
    core.connection_tasks
        .spawn(joined.copy_both_ways(client, origin, lease, idle));
    response.map(|_| ResponseBody::empty())
}

/// The two sides of an upgraded connection. Dropping it reports the bytes.
struct UpgradedConnection {
    record: RequestRecord,
    received: ByteCounter,
    sent: ByteCounter,
}

impl UpgradedConnection {
    /// Copies bytes until both sides have closed, one fails, or both were idle for too long. The lease drives
    /// the origin's side until its connection has been handed over.
    async fn copy_both_ways(mut self, client: OnUpgrade, origin: OnUpgrade, lease: PooledConnection, idle: Duration) {
        let _open = self.record.telemetry().open_upgrade();
        let (client, origin) = match futures::try_join!(client, origin) {
            Ok(both) => both,
            Err(error) => {
                tracing::debug!(%error, "Failed to take over an upgraded connection");
                return self.record.record_broken(reason::CLIENT_GONE);
            }
        };
        drop(lease);
        let mut client = CountingStream::new(TokioIo::new(client), &self.received);
        let mut origin = CountingStream::new(TokioIo::new(origin), &self.sent);
        let copy = copy_bidirectional_with_sizes(&mut client, &mut origin, BUFFER_BYTES, BUFFER_BYTES);
        let mut copy = std::pin::pin!(copy);
        loop {
            let before = self.total_bytes();
            let over = timeout(idle, &mut copy).await;
            if over.is_ok() || self.total_bytes() == before {
                return;
            }
        }
    }

    fn total_bytes(&self) -> u64 {
        self.received.count().wrapping_add(self.sent.count())
    }
}

impl Drop for UpgradedConnection {
    fn drop(&mut self) {
        self.record.add_received(self.received.count());
        self.record.add_sent(self.sent.count());
    }
}
