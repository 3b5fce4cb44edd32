//! A list of nodes and a watch of their heartbeats, served from memory to a `kube::Client`.

use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, StreamExt};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use serde_json::json;
use tower::service_fn;

use crate::node::Writer;

type Answer = UnsyncBoxBody<Bytes, std::convert::Infallible>;

/// The content of a server.
pub(crate) struct Content {
    pub(crate) nodes: usize,
    pub(crate) writer: Writer,
    /// The lines of the watch. After them it stays open and silent.
    pub(crate) beats: Vec<Bytes>,
}

/// A client of a server with this content.
pub(crate) fn client(content: Content) -> kube::Client {
    let content = Arc::new(content);
    let service = service_fn(move |request: Request<kube::client::Body>| {
        let content = content.clone();
        async move { Ok::<_, kube::Error>(Response::new(content.answer(&request))) }
    });
    kube::Client::new(service, "default")
}

impl Content {
    fn answer(&self, request: &Request<kube::client::Body>) -> Answer {
        let query = request.uri().query().unwrap_or_default();
        let pair = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        if pair("watch").is_some() {
            return self.watch();
        }
        let number = |name| pair(name).and_then(|text| text.parse().ok());
        let from = number("continue").unwrap_or(0);
        self.page(from, number("limit").unwrap_or(self.nodes))
    }

    fn page(&self, from: usize, limit: usize) -> Answer {
        let until = self.nodes.min(from + limit);
        let next = if until < self.nodes {
            until.to_string()
        } else {
            String::new()
        };
        let items: Vec<_> = (from..until).map(|number| self.writer.write(number, 1)).collect();
        let metadata = json!({ "resourceVersion": "1", "continue": next });
        let items = items.join(",");
        let list = format!(r#"{{"kind":"NodeList","metadata":{metadata},"items":[{items}]}}"#);
        Full::from(list).boxed_unsync()
    }

    fn watch(&self) -> Answer {
        let beats = stream::iter(self.beats.clone()).map(|line| Ok(Frame::data(line)));
        StreamBody::new(beats.chain(stream::pending())).boxed_unsync()
    }
}
