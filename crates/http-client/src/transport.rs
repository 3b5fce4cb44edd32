//! HTTP requests to another system, as one service, so that a simulator in virtual time can replace the
//! network.
//!
//! It never interprets or retries a request and never follows a redirect: a token for one host must not be
//! sent to another.

use std::error::Error;
use std::fmt::Write;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use tower::service_fn;
use tower::util::BoxCloneSyncService;

/// A transport error.
pub use tower::BoxError;

/// Sends a request and returns its response.
pub type Transport = BoxCloneSyncService<Request<Bytes>, Response<Bytes>, BoxError>;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// A limit in addition to the deadline of each caller, so that no request hangs.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Idle connections are closed before a firewall drops them silently.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Large enough for lists of some thousand objects.
const MAX_BODY_BYTES: usize = 4 << 20;

/// The real network: rustls, no redirects and no proxy from the environment, so that a token takes no
/// unexpected path. Plain HTTP is allowed, for a simulator. The authorities in `bundle`, as PEM, are trusted
/// in addition to those of the system.
///
/// # Errors
/// The bundle contains no certificate, or the system has no usable TLS roots.
pub fn new_reqwest(bundle: Option<&str>) -> Result<Transport, BoxError> {
    let own = parse_ca_bundle(bundle)?;
    let client = reqwest::Client::builder()
        .tls_certs_merge(own)
        .user_agent(concat!("aplomb/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(REQUEST_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .build()
        .map_err(error_with_causes)?;
    Ok(BoxCloneSyncService::new(service_fn(move |request: Request<Bytes>| {
        send_request(client.clone(), request)
    })))
}

fn parse_ca_bundle(bundle: Option<&str>) -> Result<Vec<reqwest::Certificate>, BoxError> {
    let Some(pem) = bundle else {
        return Ok(Vec::new());
    };
    let read = reqwest::Certificate::from_pem_bundle(pem.as_bytes()).map_err(error_with_causes)?;
    match read.is_empty() {
        true => Err("the CA bundle contains no certificate".into()),
        false => Ok(read),
    }
}

async fn send_request(client: reqwest::Client, request: Request<Bytes>) -> Result<Response<Bytes>, BoxError> {
    let request = reqwest::Request::try_from(request).map_err(error_with_causes)?;
    let mut answer = client.execute(request).await.map_err(error_with_causes)?;
    let (status, headers) = (answer.status(), std::mem::take(answer.headers_mut()));
    let mut body = BytesMut::new();
    while let Some(chunk) = answer.chunk().await.map_err(error_with_causes)? {
        if body.len() + chunk.len() > MAX_BODY_BYTES {
            return Err(format!("response is larger than {MAX_BODY_BYTES} bytes").into());
        }
        body.extend_from_slice(&chunk);
    }
    let mut response = Response::new(body.freeze());
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

/// The whole chain of causes, because reqwest's own text ends with "error sending request".
fn error_with_causes(error: reqwest::Error) -> BoxError {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        // Writing to a String cannot fail.
        let _ = write!(text, ": {inner}");
        cause = inner.source();
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tower::ServiceExt;

    use super::*;

    /// A server that sends one fixed response and returns the request it received.
    async fn answer_once(listener: TcpListener, text: &'static str) -> String {
        let (mut socket, _) = listener.accept().await.expect("a caller");
        let mut asked = vec![0; 4096];
        let many = socket.read(&mut asked).await.expect("a request");
        socket.write_all(text.as_bytes()).await.expect("sent");
        String::from_utf8_lossy(&asked[..many]).into_owned()
    }

    #[tokio::test]
    async fn a_redirect_is_an_answer_and_is_not_followed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let text = "HTTP/1.1 302 Found\r\nlocation: http://192.0.2.1/\r\ncontent-length: 0\r\n\r\n";
        let request = Request::get(format!("http://{address}/v1/things"))
            .header("authorization", "Bearer x")
            .body(Bytes::new())
            .expect("a request");
        let transport = new_reqwest(None).expect("a client");
        let (answer, asked) = tokio::join!(transport.oneshot(request), answer_once(listener, text));
        let answer = answer.expect("an answer");
        assert_eq!(answer.status(), 302);
        assert_eq!(answer.headers()["location"], "http://192.0.2.1/");
        let agent = concat!("user-agent: aplomb/", env!("CARGO_PKG_VERSION"));
        assert!(asked.to_lowercase().contains(agent), "{asked}");
    }

    #[tokio::test]
    async fn a_refused_connection_reports_the_cause() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        drop(listener);
        let request = Request::get(format!("http://{address}/"))
            .body(Bytes::new())
            .expect("a request");
        let transport = new_reqwest(None).expect("a client");
        let error = transport.oneshot(request).await.expect_err("nothing listens there");
        let text = error.to_string();
        assert!(text.contains("refused"), "{text}");
        assert!(!text.contains("127.0.0.1:0/"), "{text}");
    }
}
