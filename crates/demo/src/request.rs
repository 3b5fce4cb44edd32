//! One request as any client sends it: on a connection of its own to the gateway, with the whole response.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_BODY_SIZE: usize = 64 << 10;

/// The response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpAnswer {
    pub(crate) status: StatusCode,
    pub(crate) body: String,
}

/// Sends `GET /` for `host` to `gateway`.
pub(crate) async fn get(gateway: SocketAddr, host: &str) -> Result<HttpAnswer> {
    let answer = timeout(REQUEST_TIMEOUT, send_request(gateway, host)).await;
    answer.context("no response in 2 s")?
}

async fn send_request(gateway: SocketAddr, host: &str) -> Result<HttpAnswer> {
    let stream = TcpStream::connect(gateway).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::get("/").header(http::header::HOST, host);
    let request = request.body(Empty::<Bytes>::new())?;
    let exchange = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_BODY_SIZE).collect().await;
        let body = body.map_err(|error| anyhow::anyhow!("{error}"))?.to_bytes();
        ensure!(body.len() < MAX_BODY_SIZE, "the response is too long");
        let body = String::from_utf8_lossy(&body).into_owned();
        Ok(HttpAnswer { status, body })
    };
    tokio::select! { biased;
        answer = exchange => answer,
        ended = connection => Err(anyhow::anyhow!("the connection closed: {ended:?}")),
    }
}
