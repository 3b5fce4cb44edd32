//! Records a request while it runs, and reports it once to the access log and the metrics when it ends in any way.

use std::fmt;
use std::sync::Arc;

use http::Version;
use http::request::Parts;
use jiff::Timestamp;
use tokio::time::Instant;

use super::request_body::UploadProgress;
use crate::access::{AccessLog, AccessLogEntry};
use crate::limits::LimitSlot;
use crate::reason;
use crate::routing::TunnelInfo;
use crate::telemetry::{GatewayMetrics, RequestEnded};

/// The status in the log if no status was sent.
const STATUS_CLIENT_GONE: u16 = 499;

/// A request in progress. Dropping it reports how it ended.
pub(crate) struct RequestRecord {
    telemetry: GatewayMetrics,
    log: Option<AccessLog>,
    started_at: Instant,
    entry: AccessLogEntry,
    tunnel: Option<Arc<TunnelInfo>>,
    progress: Option<Arc<UploadProgress>>,
    /// Its slot in the tunnel's request limit.
    slot: Option<LimitSlot<String>>,
}

impl RequestRecord {
    /// A record with only the request head.
    pub(crate) fn new(telemetry: GatewayMetrics, log: Option<AccessLog>, time: Timestamp, head: &Parts) -> Self {
        let protocol = match head.version {
            Version::HTTP_2 => "HTTP/2.0",
            Version::HTTP_10 => "HTTP/1.0",
            _ => "HTTP/1.1",
        };
        let line = AccessLogEntry {
            time,
            request_id: String::new(),
            client: String::new(),
            tunnel: None,
            revision: None,
            method: head.method.to_string(),
            host: String::new(),
            path: head.uri.path().to_owned(),
            protocol: protocol.to_owned(),
            status: STATUS_CLIENT_GONE,
            reason: Some(reason::CLIENT_GONE),
            received: 0,
            sent: 0,
            duration_ms: 0.0,
        };
        Self {
            telemetry,
            log,
            started_at: Instant::now(),
            entry: line,
            tunnel: None,
            progress: None,
            slot: None,
        }
    }

    pub(crate) fn set_client(&mut self, client: String, request_id: String) {
        self.entry.client = client;
        self.entry.request_id = request_id;
    }

    pub(crate) fn set_host(&mut self, host: &str) {
        host.clone_into(&mut self.entry.host);
    }

    pub(crate) fn set_tunnel(&mut self, tunnel: &Arc<TunnelInfo>) {
        self.entry.tunnel = Some(tunnel.display_name());
        self.entry.revision = Some(tunnel.revision.clone());
        self.tunnel = Some(tunnel.clone());
    }

    /// Sets its slot in the tunnel's limit, which is held until it ends.
    pub(crate) fn set_slot(&mut self, share: LimitSlot<String>) {
        self.slot = Some(share);
    }

    /// Sets its body, whose bytes are counted there.
    pub(crate) fn set_upload(&mut self, progress: Arc<UploadProgress>) {
        self.progress = Some(progress);
    }

    pub(crate) fn record_response(&mut self, status: u16, reason: Option<&'static str>) {
        self.entry.status = status;
        self.entry.reason = reason;
    }

    /// Counts sent bytes of the response.
    pub(crate) fn add_sent(&mut self, bytes: u64) {
        self.entry.sent += bytes;
    }

    /// Counts received bytes of the request, in addition to its body.
    pub(crate) fn add_received(&mut self, bytes: u64) {
        self.entry.received += bytes;
    }

    pub(crate) fn record_broken(&mut self, reason: &'static str) {
        self.entry.reason = Some(reason);
    }

    pub(crate) fn tunnel(&self) -> Option<&Arc<TunnelInfo>> {
        self.tunnel.as_ref()
    }

    pub(crate) fn request_id(&self) -> &str {
        &self.entry.request_id
    }

    pub(crate) fn telemetry(&self) -> &GatewayMetrics {
        &self.telemetry
    }
}

impl Drop for RequestRecord {
    fn drop(&mut self) {
        let took = self.started_at.elapsed();
        self.entry.received += self.progress.as_ref().map_or(0, |it| it.bytes());
        self.telemetry.record_request(RequestEnded {
            tunnel: self.entry.tunnel.as_deref(),
            status: self.entry.status,
            reason: self.entry.reason,
            duration: took,
            received: self.entry.received,
            sent: self.entry.sent,
        });
        if let Some(log) = &self.log {
            self.entry.duration_ms = took.as_secs_f64() * 1000.0;
            if !log.try_log(self.entry.clone()) {
                self.telemetry.record_lost_entry();
            }
        }
    }
}

impl fmt::Debug for RequestRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Record").field(&self.entry).finish()
    }
}
