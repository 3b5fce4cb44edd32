//! OpenAPI over HTTP: which form a client gets, and the headers that let it keep what it got.

use http::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, EXPIRES, HeaderName,
    HeaderValue, IF_NONE_MATCH, LOCATION, VARY,
};
use serde_json::{Map, Value, json};

use super::document::Document;
use crate::http::filters::Context;
use crate::http::negotiate::{accepts, header};
use crate::http::response::Reply;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const V2_PROTO: HeaderValue = HeaderValue::from_static("application/com.github.proto-openapi.spec.v2.v1.0+protobuf");
const V3_PROTO: HeaderValue = HeaderValue::from_static("application/com.github.proto-openapi.spec.v3.v1.0+protobuf");
const V2_TYPES: [&str; 3] = [
    "json",
    "com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "com.github.proto-openapi.spec.v2.v1.0+protobuf",
];
const V3_TYPES: [&str; 3] = [
    "json",
    "com.github.proto-openapi.spec.v3.v1.0+protobuf",
    "com.github.proto-openapi.spec.v3@v1.0+protobuf",
];
const YEAR: i64 = 365 * 24 * 60 * 60;

/// `/openapi/v3`: the address of every document.
pub(in crate::http) fn index(context: &Context<'_>) -> Reply {
    let hashes = context.shared.openapi.hashes(&context.shared.server);
    let paths: Map<String, Value> = hashes
        .into_iter()
        .map(|(path, hash)| {
            let url = json!({ "serverRelativeURL": address(&path, &hash) });
            (path, url)
        })
        .collect();
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    let text = json!({ "paths": paths }).to_string();
    Reply::bytes(200, plain, text).with(ACCEPT_RANGES, HeaderValue::from_static("bytes"))
}

fn address(path: &str, hash: &str) -> String {
    format!("/openapi/v3/{path}?hash={hash}")
}

/// `/openapi/v3/<path>`.
pub(in crate::http) fn document(context: &Context<'_>, path: &str) -> Reply {
    let found = context.shared.openapi.document(&context.shared.server, path);
    let Some(document) = found else {
        return empty(404);
    };
    let vary = HeaderValue::from_static("Accept");
    let Some(form) = accepts(&context.headers, &V3_TYPES) else {
        return empty(406).with(VARY, vary);
    };
    let hash = context.query.first("hash").unwrap_or_default();
    if !hash.is_empty() && hash != document.hash {
        let url = address(path, &document.hash);
        let moved = with(empty(301), LOCATION, &url).with(CONTENT_TYPE, JSON);
        return tagged(moved, &document).with(VARY, vary);
    }
    let mut reply = if is_known(context, &document) {
        empty(304)
    } else if form == 0 {
        Reply::bytes(200, JSON, document.json.clone())
    } else {
        Reply::bytes(200, V3_PROTO, document.proto())
    };
    if !hash.is_empty() {
        let cache = HeaderValue::from_static("public, immutable");
        reply = with(reply.with(CACHE_CONTROL, cache), EXPIRES, &in_a_year(context));
    }
    ranged(tagged(reply, &document)).with(VARY, vary)
}

/// `/openapi/v2`.
pub(in crate::http) fn swagger(context: &Context<'_>) -> Reply {
    let vary = |mut reply: Reply| {
        for word in ["Accept-Encoding", "Accept"] {
            reply.headers.append(VARY, HeaderValue::from_static(word));
        }
        reply
    };
    let Some(form) = accepts(&context.headers, &V2_TYPES) else {
        return vary(empty(406));
    };
    let document = context.shared.openapi.swagger(&context.shared.server);
    if is_known(context, &document) {
        return vary(tagged(empty(304), &document));
    }
    let (kind, proto) = if form == 0 { (JSON, false) } else { (V2_PROTO, true) };
    let reply = if takes_gzip(context) {
        let packed = Reply::bytes(200, kind, document.packed(proto));
        packed.with(CONTENT_ENCODING, HeaderValue::from_static("gzip"))
    } else if proto {
        Reply::bytes(200, kind, document.proto())
    } else {
        Reply::bytes(200, kind, document.json.clone())
    };
    vary(ranged(tagged(reply, &document)))
}

fn empty(code: u16) -> Reply {
    let mut reply = Reply::json(code, "");
    reply.headers.remove(CONTENT_TYPE);
    reply
}

fn with(reply: Reply, name: HeaderName, value: &str) -> Reply {
    match HeaderValue::from_str(value) {
        Ok(value) => reply.with(name, value),
        Err(_) => reply,
    }
}

fn tagged(reply: Reply, document: &Document) -> Reply {
    with(reply, ETAG, &format!("\"{}\"", document.hash))
}

/// Only an answer with a body can be asked for in parts.
fn ranged(reply: Reply) -> Reply {
    if reply.code == 304 {
        return reply;
    }
    reply.with(ACCEPT_RANGES, HeaderValue::from_static("bytes"))
}

fn is_known(context: &Context<'_>, document: &Document) -> bool {
    let known = header(&context.headers, IF_NONE_MATCH.as_str());
    let tag = format!("\"{}\"", document.hash);
    known
        .split(',')
        .map(str::trim)
        .any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag)
}

fn takes_gzip(context: &Context<'_>) -> bool {
    let accepted = header(&context.headers, ACCEPT_ENCODING.as_str());
    accepted.split(',').any(|clause| {
        let (coding, weight) = clause.split_once(';').unwrap_or((clause, ""));
        coding.trim() == "gzip" && weight.trim() != "q=0"
    })
}

fn in_a_year(context: &Context<'_>) -> String {
    let now = context.shared.server.clock().now();
    let then = jiff::Timestamp::from_second(now.as_second() + YEAR).unwrap_or(now);
    then.strftime("%a, %d %b %Y %H:%M:%S UTC").to_string()
}
