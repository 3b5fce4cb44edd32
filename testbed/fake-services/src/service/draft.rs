//! An answer on its way: status and body, before the headers that a service puts on each.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use http::{HeaderMap, Response, StatusCode};
use jiff::Timestamp;
use serde_json::Value;

use super::fault::Fault;

/// The header in which a client says how urgent a request is.
pub(crate) const LANE: &str = "x-aplomb-lane";

/// Body of an answer: JSON, or text of a kind.
#[derive(Debug)]
pub(crate) enum Body {
    None,
    Json(Value),
    Text(String, &'static str),
}

/// What a gateway in front of a service writes.
pub(crate) const HTML: &str = "text/html";

/// An answer before its headers.
#[derive(Debug)]
pub(crate) struct ResponseDraft {
    pub(crate) status: StatusCode,
    /// Code of a refusal, for the log.
    pub(crate) code: Option<String>,
    pub(crate) body: Body,
}

impl ResponseDraft {
    /// What a fault answers by itself: the body it names, none where it succeeds, or what a gateway
    /// would say. `None`: it is for the service to say.
    pub(crate) fn of<A>(fault: &Fault<A>, status: StatusCode) -> Option<Self> {
        let gateway = matches!(status.as_u16(), 502 | 504) && fault.code.is_none();
        let body = match &fault.body {
            Some(Value::String(given)) => Body::Text(given.clone(), HTML),
            Some(given) => Body::Json(given.clone()),
            None if status.is_success() || status.is_redirection() => Body::None,
            None if gateway => {
                let reason = status.canonical_reason().unwrap_or_default();
                Body::Text(reason.to_owned(), HTML)
            }
            None => return None,
        };
        let code = None;
        Some(Self { status, code, body })
    }

    /// The answer without any header but the type of its body.
    pub(crate) fn respond(self) -> Response<Bytes> {
        let (body, kind) = match self.body {
            Body::None => (Bytes::new(), None),
            Body::Json(body) => (Bytes::from(body.to_string()), Some("application/json")),
            Body::Text(text, kind) => (Bytes::from(text), Some(kind)),
        };
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        if let Some(kind) = kind {
            let kind = HeaderValue::from_static(kind);
            response.headers_mut().insert(CONTENT_TYPE, kind);
        }
        response
    }
}

/// Puts a fault's headers over those of an answer.
pub(crate) fn override_headers<A>(headers: &mut HeaderMap, fault: Option<&Fault<A>>) {
    for (name, value) in fault.into_iter().flat_map(|fault| &fault.headers) {
        let pair = (HeaderName::try_from(name), HeaderValue::try_from(value));
        if let (Ok(name), Ok(value)) = pair {
            headers.insert(name, value);
        }
    }
}

/// The moment as the `Date` header has it.
pub(crate) fn date(now: Timestamp) -> String {
    now.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// What the lane header says.
pub(crate) fn lane(headers: &HeaderMap) -> Option<String> {
    let lane = headers.get(LANE)?.to_str().ok()?;
    Some(lane.to_owned())
}

/// The product a client names itself after in its `User-Agent`.
pub(crate) fn product(headers: &HeaderMap) -> Option<String> {
    let agent = headers.get(USER_AGENT)?.to_str().ok()?;
    let product = agent.split(['/', ' ']).next()?;
    Some(product.to_owned()).filter(|product| !product.is_empty())
}
