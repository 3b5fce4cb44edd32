//! A body that can be sent only once. kube's retry layer repeats requests that it can clone, without
//! the caller's knowledge; it cannot clone a body that came out of another client.

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use tower::{BoxError, service_fn};

#[derive(Clone)]
pub(super) struct SingleUseBody(Client);

impl SingleUseBody {
    pub(super) fn new() -> Self {
        let echo =
            service_fn(|request: Request<Body>| async move { Ok::<_, BoxError>(Response::new(request.into_body())) });
        Self(Client::new(echo, "default"))
    }

    /// The same request, which lower layers cannot repeat.
    pub(super) async fn seal(&self, request: Request<Body>) -> Result<Request<Body>, BoxError> {
        let (head, body) = request.into_parts();
        let sealed = self.0.send(Request::new(body)).await?.into_body();
        Ok(Request::from_parts(head, sealed))
    }
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;

    use super::*;

    #[tokio::test]
    async fn a_sealed_body_is_the_same_but_cannot_be_cloned() {
        let once = SingleUseBody::new();
        for bytes in [Vec::new(), b"{}".to_vec()] {
            let length = bytes.len() as u64;
            let sealed = once.seal(Request::new(Body::from(bytes.clone()))).await.unwrap();
            assert!(sealed.body().try_clone().is_none());
            assert_eq!(sealed.body().size_hint().exact(), Some(length));
            assert_eq!(sealed.body().is_end_stream(), bytes.is_empty());
            assert_eq!(sealed.into_body().collect_bytes().await.unwrap(), bytes);
        }
    }
}
