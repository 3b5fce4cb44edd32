//! One connection to a server, and requests on it one after another.
//!
//! As little client as there can be, so that what is measured is the server: it blocks, and spends two
//! system calls on a request. It knows no more of HTTP than the answers of these two servers need.

use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::Request;
use kube::Config;
use kube::client::ConfigExt;
use kube::config::{KubeConfigOptions, Kubeconfig};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use serde_json::Value;

use super::answer::{self, Answer};

/// A server that says nothing for so long has hung.
const PATIENCE: Duration = Duration::from_secs(60);
/// As much as a TLS record holds.
const READ: usize = 16 * 1024;

/// An open connection over TLS.
pub struct Connection {
    stream: BufReader<StreamOwned<ClientConnection, TcpStream>>,
    /// The headers every request has.
    headers: String,
}

impl Connection {
    /// Opens it as the kubeconfig says.
    ///
    /// # Errors
    /// When the server is not reached.
    pub async fn open(kubeconfig: Kubeconfig) -> Result<Self> {
        let written = serde_json::to_value(&kubeconfig)?;
        let token = written.pointer("/users/0/user/token");
        let token = token.and_then(Value::as_str);
        let token = token.context("the kubeconfig has no token")?;
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        let authority = config.cluster_url.authority();
        let authority = authority.context("the server's URL has no address")?;
        let tcp = TcpStream::connect(authority.as_str()).with_context(|| format!("connecting to {authority}"))?;
        tcp.set_nodelay(true)?;
        tcp.set_read_timeout(Some(PATIENCE))?;
        let name = ServerName::try_from(authority.host().to_owned())?;
        let tls = ClientConnection::new(Arc::new(config.rustls_client_config()?), name)?;
        Ok(Self {
            stream: BufReader::with_capacity(READ, StreamOwned::new(tls, tcp)),
            headers: format!("Host: {authority}\r\nAuthorization: Bearer {token}\r\n"),
        })
    }

    /// Sends a request that was written before and reads its answer to the end.
    ///
    /// # Errors
    /// An answer that is not a success, or none.
    pub fn send(&mut self, written: &[u8]) -> Result<Vec<u8>> {
        self.stream.get_mut().write_all(written)?;
        let Answer { status, body } = answer::read(&mut self.stream)?;
        let text = || String::from_utf8_lossy(&body);
        ensure!((200..300).contains(&status), "{status}: {}", text());
        Ok(body)
    }

    /// A request as it is sent here.
    ///
    /// # Errors
    /// A header that is no text.
    pub fn written(&self, request: &Request<Vec<u8>>) -> Result<Vec<u8>> {
        let (method, target) = (request.method(), request.uri());
        let body = request.body();
        let mut written = Vec::with_capacity(512 + body.len());
        write!(written, "{method} {target} HTTP/1.1\r\n{}", self.headers)?;
        for (name, value) in request.headers() {
            write!(written, "{name}: {}\r\n", value.to_str()?)?;
        }
        write!(written, "Content-Length: {}\r\n\r\n", body.len())?;
        written.extend_from_slice(body);
        Ok(written)
    }
}
