//! What is remembered of a request while it lasts, and told once it has ended: to the access log and to
//! the metrics. However it ends, it is told once.

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

/// What the log says where no status was ever sent.
const CLIENT_GONE: u16 = 499;

/// A request under way. Dropping it tells how it ended.
pub(crate) struct RequestRecord {
    telemetry: GatewayMetrics,
    log: Option<AccessLog>,
    began: Instant,
    line: AccessLogEntry,
    tunnel: Option<Arc<TunnelInfo>>,
    progress: Option<Arc<UploadProgress>>,
    /// Its place among the requests of its tunnel.
    share: Option<LimitSlot<String>>,
}

impl RequestRecord {
    /// A request of which nothing but its head is known.
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

    /// Who asks, under which name this is told.
    pub(crate) fn asked_by(&mut self, client: String, request_id: String) {
        self.line.client = client;
        self.line.request_id = request_id;
    }

    /// The hostname that was asked for.
    pub(crate) fn asked_for(&mut self, host: &str) {
        host.clone_into(&mut self.line.host);
    }

    /// The tunnel it belongs to.
    pub(crate) fn belongs_to(&mut self, tunnel: &Arc<TunnelInfo>) {
        self.line.tunnel = Some(tunnel.label());
        self.line.revision = Some(tunnel.revision.clone());
        self.tunnel = Some(tunnel.clone());
    }

    /// Its place among the requests of its tunnel, which it keeps until it ends.
    pub(crate) fn counts_as(&mut self, share: LimitSlot<String>) {
        self.share = Some(share);
    }

    /// Its body, whose bytes are counted elsewhere.
    pub(crate) fn uploads(&mut self, progress: Arc<UploadProgress>) {
        self.progress = Some(progress);
    }

    /// The head of its response is on its way.
    pub(crate) fn answered(&mut self, status: u16, reason: Option<&'static str>) {
        self.line.status = status;
        self.line.reason = reason;
    }

    /// So much more of the response was sent.
    pub(crate) fn sent(&mut self, bytes: u64) {
        self.line.sent += bytes;
    }

    /// So much more of the request was received, beside its body.
    pub(crate) fn received(&mut self, bytes: u64) {
        self.line.received += bytes;
    }

    /// It ended before its time.
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
