//! Requests a proof from a gateway's public listener, by hostname like any client. Each request opens its own
//! connection, so that a response never comes from an older one.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aplomb_api::tunnel::headers;
use aplomb_tunnel_protocol::ProofStatement;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::probe::tls::{self, HandshakeError};

const MAX_RESPONSE_BYTES: usize = 16 * 1024;

#[derive(Clone, Debug)]
pub struct ProbeRequest {
    /// Address of the listener: ip:port.
    pub listen: String,
    pub tls: bool,
    /// The hostname, for `Host` and for SNI.
    pub hostname: String,
    pub rule: usize,
    pub statement: ProofStatement,
    pub timeout: Duration,
}

#[derive(Clone, Debug)]
pub struct ProbeResponse {
    pub status: StatusCode,
    /// `X-Aplomb-Reason`, if the gateway itself responded.
    pub reason: Option<String>,
    pub body: Bytes,
}

/// Why the probe got no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeError {
    /// The listener refused or closed the connection.
    Unreachable,
    TimedOut,
    /// The listener has no certificate for the hostname.
    NoCertificate,
    /// The listener's certificate is for other hostnames.
    WrongCertificate,
}

/// Sends probe requests. Tests replace it.
pub trait ProbeClient: Send + Sync + 'static {
    fn send<'a>(&'a self, question: &'a ProbeRequest) -> BoxFuture<'a, Result<ProbeResponse, ProbeError>>;
}

#[derive(Clone)]
pub struct HttpProbeClient {
    tls: Arc<rustls::ClientConfig>,
}

impl HttpProbeClient {
    #[must_use]
    pub fn new() -> Self {
        Self {
            tls: tls::client_config(),
        }
    }

    async fn send_request(&self, question: &ProbeRequest) -> Result<ProbeResponse, ProbeError> {
        let until = Instant::now() + question.timeout;
        let stream = TcpStream::connect(&question.listen).await;
        let stream = stream.map_err(|_| ProbeError::Unreachable)?;
        drop(stream.set_nodelay(true));
        if !question.tls {
            return exchange_http(stream, question, until).await;
        }
        let stream = tls::handshake(&self.tls, stream, &question.hostname).await;
        let stream = stream.map_err(|error| match error {
            HandshakeError::Broken => ProbeError::Unreachable,
            HandshakeError::NoCertificate => ProbeError::NoCertificate,
            HandshakeError::WrongName => ProbeError::WrongCertificate,
        })?;
        exchange_http(stream, question, until).await
    }
}

impl Default for HttpProbeClient {
    fn default() -> Self {
        Self::new()
    }
}

impl ProbeClient for HttpProbeClient {
    fn send<'a>(&'a self, question: &'a ProbeRequest) -> BoxFuture<'a, Result<ProbeResponse, ProbeError>> {
        Box::pin(async move {
            let answer = timeout(question.timeout, self.send_request(question)).await;
            answer.unwrap_or(Err(ProbeError::TimedOut))
        })
    }
}

impl fmt::Debug for HttpProbeClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Http")
    }
}

async fn exchange_http<S>(stream: S, question: &ProbeRequest, until: Instant) -> Result<ProbeResponse, ProbeError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|_| ProbeError::Unreachable)?;
    let asked = async {
        let left = until.saturating_duration_since(Instant::now());
        let response = sender.send_request(build_request(question, left)?).await;
        let (head, body) = response.map_err(|_| ProbeError::Unreachable)?.into_parts();
        let body = Limited::new(body, MAX_RESPONSE_BYTES).collect().await;
        let reason = head.headers.get(headers::REASON);
        Ok(ProbeResponse {
            status: head.status,
            reason: reason.and_then(|it| it.to_str().ok()).map(str::to_owned),
            body: body.map_err(|_| ProbeError::Unreachable)?.to_bytes(),
        })
    };
    // The connection is polled here and dropped here, so that no task outlives the request.
    tokio::select! { biased;
        answer = asked => answer,
        _ = connection => Err(ProbeError::Unreachable),
    }
}

/// The HTTP request of a probe that must be answered within `left`.
pub fn build_request(question: &ProbeRequest, left: Duration) -> Result<Request<Empty<Bytes>>, ProbeError> {
    let statement = serde_json::to_vec(&question.statement).map_err(|_| ProbeError::Unreachable)?;
    let (rule, within) = (question.rule, left.as_millis());
    let path = format!("{}?rule={rule}&within={within}", headers::PROOF_PATH);
    Request::get(path)
        .header(http::header::HOST, &question.hostname)
        .header(headers::PROOF, URL_SAFE_NO_PAD.encode(statement))
        .body(Empty::new())
        .map_err(|_| ProbeError::Unreachable)
}
