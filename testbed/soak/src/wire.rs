//! A small client of an API server: HTTP/2 over TLS, nothing retried, nothing hidden.
//!
//! One connection carries many watches, so that a thousand of them are a handful of sockets.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

/// Bytes that may be on their way on one stream, and on all of a connection.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 64 << 20;

/// Where a server is and how to be let in.
#[derive(Clone)]
pub struct Target {
    address: String,
    host: ServerName<'static>,
    token: String,
    tls: Arc<ClientConfig>,
}

impl Target {
    /// What a kubeconfig with a token says.
    ///
    /// # Errors
    /// It cannot be read, or says something else.
    pub fn read(kubeconfig: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(kubeconfig).with_context(|| format!("read {}", kubeconfig.display()))?;
        let config: Value = serde_saphyr::from_str(&text)?;
        let cluster = &config["clusters"][0]["cluster"];
        let word = |value: &Value| value.as_str().map(str::to_owned);
        let url = word(&cluster["server"]).context("a server")?;
        let address = url.trim_start_matches("https://").trim_end_matches('/');
        let host = address.rsplit_once(':').context("a port")?.0.to_owned();
        let authority = word(&cluster["certificate-authority-data"]).context("an authority")?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&STANDARD.decode(authority)?) {
            roots.add(certificate?)?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self {
            address: address.to_owned(),
            host: ServerName::try_from(host)?,
            token: word(&config["users"][0]["user"]["token"]).context("a token")?,
            tls: Arc::new(tls),
        })
    }

    /// A new connection.
    ///
    /// # Errors
    /// Nobody is there.
    pub async fn connect(&self) -> Result<Connection> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let tls = TlsConnector::from(self.tls.clone());
        let stream = tls.connect(self.host.clone(), stream).await?;
        let (sender, driver) = Builder::new(TokioExecutor::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake(TokioIo::new(stream))
            .await?;
        let driver = tokio::spawn(async move { drop(driver.await) });
        Ok(Connection {
            sender,
            base: format!("https://{}", self.address),
            bearer: format!("Bearer {}", self.token),
            _driver: Arc::new(Driver(driver)),
        })
    }
}

/// What moves the bytes of a connection; it ends with the last handle of it.
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A connection. Cheap to clone; clones are the same connection.
#[derive(Clone)]
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    base: String,
    bearer: String,
    _driver: Arc<Driver>,
}

/// What was answered.
#[derive(Debug)]
pub struct Answer {
    /// HTTP status code.
    pub code: u16,
    /// The body, `null` where it is no JSON.
    pub body: Value,
}

impl Connection {
    /// One request and its whole answer.
    ///
    /// # Errors
    /// The connection broke; whether the request was carried out is not known then.
    pub async fn ask(&self, method: Method, path: &str, media: &str, body: Vec<u8>) -> Result<Answer> {
        let response = self.send(method, path, media, body).await?;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await?.to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or_default();
        Ok(Answer { code, body })
    }

    /// What a path holds.
    ///
    /// # Errors
    /// The connection broke, or the answer is not 200.
    pub async fn get(&self, path: &str) -> Result<Value> {
        let answer = self.ask(Method::GET, path, "", Vec::new()).await?;
        ensure!(answer.code == 200, "GET {path}: {answer:?}");
        Ok(answer.body)
    }

    /// The lines of a watch.
    ///
    /// # Errors
    /// The connection broke, or the answer is not 200.
    pub async fn watch(&self, path: &str) -> Result<Lines> {
        let response = self.send(Method::GET, path, "", Vec::new()).await?;
        let code = response.status();
        ensure!(code == 200, "GET {path}: {code}");
        Ok(Lines {
            body: response.into_body(),
            read: BytesMut::new(),
        })
    }

    async fn send(&self, method: Method, path: &str, media: &str, body: Vec<u8>) -> Result<http::Response<Incoming>> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header(AUTHORIZATION, &self.bearer);
        if !media.is_empty() {
            request = request.header(CONTENT_TYPE, media);
        }
        let request = request.body(Full::new(Bytes::from(body)))?;
        let mut sender = self.sender.clone();
        sender.ready().await?;
        Ok(sender.send_request(request).await?)
    }
}

/// The lines of a body as they come.
pub struct Lines {
    body: Incoming,
    read: BytesMut,
}

impl Lines {
    /// The next whole line; `None` where the stream ended, in whatever way.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                return Some(self.read.split_to(end + 1).freeze());
            }
            let frame = self.body.frame().await?.ok()?;
            if let Ok(data) = frame.into_data() {
                self.read.extend_from_slice(&data);
            }
        }
    }
}
