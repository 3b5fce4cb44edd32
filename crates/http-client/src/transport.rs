//! How requests reach another system: one service, so that a simulator in virtual time can stand where the
//! network stands in production.
//!
//! Nothing here knows what a request means, tries one a second time or follows a redirect: a token that
//! was meant for one host is never sent to another.

use std::error::Error;
use std::fmt::Write;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use tower::service_fn;
use tower::util::BoxCloneSyncService;

/// What went wrong on the way.
pub type BoxError = tower::BoxError;

/// Carries a request and its answer back.
pub type Transport = BoxCloneSyncService<Request<Bytes>, Response<Bytes>, BoxError>;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Behind every caller's own deadline: nothing may hang for ever.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Nobody waits for an idle connection that a firewall has dropped in silence.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Lists of some thousand objects are below it.
const MAX_BODY_BYTES: usize = 4 << 20;

/// The network: rustls, no redirects and no proxy from the environment, because a token must not take a
/// way that nobody chose for it. Plain HTTP is allowed, for a simulator. Authorities in `bundle`, as PEM,
/// are trusted besides those of the machine.
///
/// # Errors
/// The bundle holds no certificate, or the machine has no usable TLS roots.
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
    Ok(BoxCloneSyncService::new(service_fn(
        move |request: Request<Bytes>| send_request(client.clone(), request),
    )))
}

fn parse_ca_bundle(bundle: Option<&str>) -> Result<Vec<reqwest::Certificate>, BoxError> {
    let Some(pem) = bundle else {
        return Ok(Vec::new());
    };
    let read = reqwest::Certificate::from_pem_bundle(pem.as_bytes()).map_err(error_with_causes)?;
    match read.is_empty() {
        true => Err("the CA bundle holds no certificate".into()),
        false => Ok(read),
    }
}

async fn send_request(
    client: reqwest::Client,
    request: Request<Bytes>,
) -> Result<Response<Bytes>, BoxError> {
    let request = reqwest::Request::try_from(request).map_err(error_with_causes)?;
    let mut answer = client.execute(request).await.map_err(error_with_causes)?;
    let (status, headers) = (answer.status(), std::mem::take(answer.headers_mut()));
    let mut body = BytesMut::new();
    while let Some(chunk) = answer.chunk().await.map_err(error_with_causes)? {
        if body.len() + chunk.len() > MAX_BODY_BYTES {
            return Err(format!("an answer of more than {MAX_BODY_BYTES} bytes").into());
        }
        body.extend_from_slice(&chunk);
    }
    let mut response = Response::new(body.freeze());
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

/// Says the whole chain of causes: reqwest's own text stops at "error sending request".
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

    /// A server that says one thing; returns what it was asked.
    async fn answer_once(listener: TcpListener, text: &'static str) -> String {
        let (mut socket, _) = listener.accept().await.expect("a caller");
        let mut asked = vec![0; 4096];
        let many = socket.read(&mut asked).await.expect("a request");
        socket.write_all(text.as_bytes()).await.expect("heard");
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
        let error = transport.oneshot(request).await.expect_err("nobody there");
        let text = error.to_string();
        assert!(text.contains("refused"), "{text}");
        assert!(!text.contains("127.0.0.1:0/"), "{text}");
    }
}
