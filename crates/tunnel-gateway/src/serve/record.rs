//! Records a request while it runs, and reports it once to the access log and the metrics when it ends in any
//! way.

use std::fmt;
use std::sync::Arc;

use http::Version;
use http::request::Parts;
use jiff::Timestamp;
use tokio::time::Instant;

use super::upload::UploadProgress;
use crate::access::{AccessLog, AccessLogEntry};
use crate::limits::LimitSlot;
use crate::reason;
use crate::table::TunnelInfo;
use crate::telemetry::{GatewayMetrics, RequestEnded};

/// The status in the log if no status was sent.
const CLIENT_GONE: u16 = 499;

/// A request in progress. Dropping it reports how it ended.
pub(crate) struct RequestRecord {
    telemetry: GatewayMetrics,
    log: Option<AccessLog>,
    began: Instant,
    line: AccessLogEntry,
    tunnel: Option<Arc<TunnelInfo>>,
    progress: Option<Arc<UploadProgress>>,
    /// Its slot in the tunnel's request limit.
    share: Option<LimitSlot<String>>,
}

impl RequestRecord {
    /// A record with only the request head.
    pub(crate) fn new(
        telemetry: GatewayMetrics,
        log: Option<AccessLog>,
        time: Timestamp,
        head: &Parts,
    ) -> Self {
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
            status: CLIENT_GONE,
            reason: Some(reason::CLIENT_GONE),
            received: 0,
            sent: 0,
            duration_ms: 0.0,
        };
        Self {
            telemetry,
            log,
            began: Instant::now(),
            line,
            tunnel: None,
            progress: None,
            share: None,
        }
    }

    /// Sets the client and the request id.
    pub(crate) fn asked_by(&mut self, client: String, request_id: String) {
        self.line.client = client;
        self.line.request_id = request_id;
    }

    /// Sets the requested hostname.
    pub(crate) fn asked_for(&mut self, host: &str) {
        host.clone_into(&mut self.line.host);
    }

    /// Sets the tunnel that it belongs to.
    pub(crate) fn belongs_to(&mut self, tunnel: &Arc<TunnelInfo>) {
        self.line.tunnel = Some(tunnel.label());
        self.line.revision = Some(tunnel.revision.clone());
        self.tunnel = Some(tunnel.clone());
    }

    /// Sets its slot in the tunnel's limit, which is held until it ends.
    pub(crate) fn counts_as(&mut self, share: LimitSlot<String>) {
        self.share = Some(share);
    }

    /// Sets its body, whose bytes are counted there.
    pub(crate) fn uploads(&mut self, progress: Arc<UploadProgress>) {
        self.progress = Some(progress);
    }

    /// Records that the response head is being sent.
    pub(crate) fn answered(&mut self, status: u16, reason: Option<&'static str>) {
        self.line.status = status;
        self.line.reason = reason;
    }

    /// Counts sent bytes of the response.
    pub(crate) fn sent(&mut self, bytes: u64) {
        self.line.sent += bytes;
    }

    /// Counts received bytes of the request, in addition to its body.
    pub(crate) fn received(&mut self, bytes: u64) {
        self.line.received += bytes;
    }

    /// Records that it was aborted.
    pub(crate) fn broke(&mut self, reason: &'static str) {
        self.line.reason = Some(reason);
    }

    pub(crate) fn tunnel(&self) -> Option<&Arc<TunnelInfo>> {
        self.tunnel.as_ref()
    }

    pub(crate) fn request_id(&self) -> &str {
        &self.line.request_id
    }

    pub(crate) fn telemetry(&self) -> &GatewayMetrics {
        &self.telemetry
    }
}

impl Drop for RequestRecord {
    fn drop(&mut self) {
        let took = self.began.elapsed();
        self.line.received += self.progress.as_ref().map_or(0, |it| it.bytes());
        self.telemetry.emit(RequestEnded {
            tunnel: self.line.tunnel.as_deref(),
            status: self.line.status,
            reason: self.line.reason,
            took,
            received: self.line.received,
            sent: self.line.sent,
        });
        if let Some(log) = &self.log {
            self.line.duration_ms = took.as_secs_f64() * 1000.0;
            if !log.note(self.line.clone()) {
                self.telemetry.line_lost();
            }
        }
    }
}

impl fmt::Debug for RequestRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Record").field(&self.line).finish()
    }
}
