//! The plain reverse proxy: hyper's server and hyper's pooled client, without anything in between.

use anyhow::Result;
use http::Uri;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};

use crate::service::listen;

/// Starts it in front of the origin; returns its port.
pub(crate) fn start(origin: u16) -> Result<u16> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client = Client::builder(TokioExecutor::new()).build(connector);
    listen(move |socket| {
        let client = client.clone();
        async move {
            let service = service_fn(move |mut request: http::Request<hyper::body::Incoming>| {
                let path = request.uri().path_and_query().cloned();
                let path = path.map_or_else(|| "/".to_owned(), |path| path.to_string());
                let uri = format!("http://127.0.0.1:{origin}{path}").parse::<Uri>();
                *request.uri_mut() = uri.unwrap_or_default();
                client.request(request)
            });
            // Connections may end with an error when a client disconnects.
            let _ended = http1::Builder::new()
                .serve_connection(TokioIo::new(socket), service)
                .await;
        }
    })
}
