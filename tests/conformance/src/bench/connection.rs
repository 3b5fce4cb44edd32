//! One connection to a server, and requests on it one after another: as little client as there can be,
//! so that what is measured is the server.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST, HeaderValue};
use http::{HeaderMap, Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use kube::Config;
use kube::client::ConfigExt;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use tokio::task::JoinHandle;
use tower::ServiceExt;

/// An open connection over TLS.
pub struct Connection {
    requests: SendRequest<Full<Bytes>>,
    headers: HeaderMap,
    driver: JoinHandle<()>,
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
        let token = token.context("the kubeconfig has a token")?;
        let mut bearer = HeaderValue::from_str(&format!("Bearer {token}"))?;
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        bearer.set_sensitive(true);
        let address = address(&config.cluster_url)?;
        let headers = HeaderMap::from_iter([
            (AUTHORIZATION, bearer),
            (HOST, HeaderValue::from_str(&address)?),
        ]);
        let connector = config.rustls_https_connector()?;
        let stream = connector.oneshot(config.cluster_url.clone()).await;
        let stream = stream.map_err(|error| anyhow::anyhow!("connecting to {address}: {error}"))?;
        let (requests, connection) = http1::handshake(stream).await?;
        let driver = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "Connection ended");
            }
        });
        Ok(Self {
            requests,
            headers,
            driver,
        })
    }

    /// Sends a request and reads its answer to the end.
    ///
    /// # Errors
    /// An answer that is not a success.
    pub async fn send(&mut self, mut request: Request<Vec<u8>>) -> Result<Bytes> {
        request.headers_mut().extend(self.headers.clone());
        self.requests.ready().await?;
        let request = request.map(|body| Full::new(Bytes::from(body)));
        let response = self.requests.send_request(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        let text = || String::from_utf8_lossy(&body);
        ensure!(status.is_success(), "{status}: {}", text());
        Ok(body)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

fn address(url: &Uri) -> Result<String> {
    let authority = url.authority().context("the URL has an address")?;
    Ok(authority.to_string())
}
