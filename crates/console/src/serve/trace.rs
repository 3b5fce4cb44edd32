//! One object over HTTP, as a page and as JSON. Uses only what this process watches;
//! `aplomb trace` also reads from the API server.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::{ConsoleState, render_response, response_headers};
use crate::page;
use crate::status::ObjectName;

/// The object that a page shows, as its path names it.
#[derive(Clone, Debug)]
pub(super) struct TraceSubject {
    pub(super) kind: String,
    pub(super) name: ObjectName,
}

impl TraceSubject {
    /// Reads `KIND/NAME` or `KIND/NAMESPACE/NAME`.
    pub(super) fn parse(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.split('/').collect();
        let (kind, namespace, name) = match parts[..] {
            [kind, name] => (kind, None, name),
            [kind, namespace, name] => (kind, Some(namespace.to_owned()), name),
            _ => return None,
        };
        Some(Self {
            kind: kind.to_owned(),
            name: ObjectName {
                namespace,
                name: name.to_owned(),
            },
        })
    }
}

pub(super) async fn serve_trace(State(console): State<ConsoleState>, Path(path): Path<String>) -> Response {
    let (path, json) = match path.strip_suffix(".json") {
        Some(bare) => (bare, true),
        None => (&*path, false),
    };
    let subject = TraceSubject::parse(path);
    let Some(story) = subject.as_ref().and_then(|it| console.story(it)) else {
        let nothing = format!("{path} does not exist or is not watched by this process\n");
        let kind = response_headers("text/plain; charset=utf-8");
        return (StatusCode::NOT_FOUND, kind, nothing).into_response();
    };
    if json {
        return (response_headers("application/json"), Json(story.trace)).into_response();
    }
    let tree = &story.trace.tree;
    let title = format!("{} {}", tree.kind, tree.name);
    let main = page::render_story(&story);
    let page = main.and_then(|main| page::render_document(&title, main, &format!("/events?of={path}")));
    render_response("text/html; charset=utf-8", page)
}
