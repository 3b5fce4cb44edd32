//! WATCH: what changes, as it changes.
//!
//! A watch pulls from the store's log; it owns no task and holds nothing back. Dropping the stream
//! ends it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use aplomb_apimachinery::encoded_object::{EncodedObject, Side};
use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::Resource;
use aplomb_apimachinery::status::ApiError;
use futures::StreamExt;
use futures::stream;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::get::{too_large, version, wait_until_fresh};
use super::selector::Selection;
use super::{options, served};
use crate::call::{Call, Options, Outcome, WatchEvent};
use crate::mutation::Rule;
use crate::server::ApiServer;
use crate::storage::{Change, Cursor, Next};

const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// Bookmarks also go out this long before the end of a watch.
const LAST_BOOKMARKS: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(1)];
/// Without `timeoutSeconds` a watch lasts this long, and up to twice as long.
const DEFAULT_TIMEOUT: u64 = 1800;

pub(super) async fn watch(server: &ApiServer, mut call: Call) -> Result<Outcome, ApiError> {
    default_options(&mut call.options);
    let selection = Selection::of(&call, || validate(&call.options))?;
    let wanted = version(call.options.resource_version.as_deref()).map_err(|e| ApiError::new(500, "", e))?;
    let initial = call.options.send_initial_events == Some(true);
    if initial && wait_until_fresh(server, wanted).await.is_err() {
        return Ok(ended(too_large(wanted, server.store().revision())));
    }
    let (cursor, queue) = if initial {
        begin(server, &call, &selection)
    } else {
        let from = Some(wanted).filter(|wanted| *wanted > 0);
        match server.store().follow(&call.resource.storage, from) {
            Ok(cursor) => (cursor, VecDeque::new()),
            Err(gone) => {
                let message = format!("too old resource version: {wanted} ({})", gone.oldest);
                return Ok(ended(ApiError::expired(message)));
            }
        }
    };
    let watcher = Watcher::new(server, call, selection, cursor, queue);
    Ok(Outcome::Watch(stream::unfold(watcher, Watcher::next).boxed()))
}

/// What is there as events, and the place from which to go on.
fn begin(server: &ApiServer, call: &Call, selection: &Selection) -> (Cursor, VecDeque<WatchEvent>) {
    let (resource, storage) = (&call.resource, &call.resource.storage);
    let (mut snapshot, cursor) = server.store().snapshot_and_follow(storage);
    if let Some(Ok(past)) = server.as_of().map(|at| server.store().snapshot_at(storage, at)) {
        snapshot = past;
    }
    let mut queue = VecDeque::new();
    for (key, stored) in &snapshot.objects {
        let namespace = key.split_once('/').map_or("", |(namespace, _)| namespace);
        if selection.covers(namespace) {
            let object = served(resource, stored);
            if selection.matches(resource, &object) {
                queue.push_back(WatchEvent::Added(EncodedObject::new(object)));
            }
        }
    }
    if call.options.allow_watch_bookmarks {
        queue.push_back(bookmark(resource, snapshot.revision, true));
    }
    (cursor, queue)
}

fn ended(error: ApiError) -> Outcome {
    Outcome::Watch(stream::iter([WatchEvent::Error(error)]).boxed())
}

/// A watch from nowhere in particular begins with what is there.
fn default_options(options: &mut Options) {
    let rule = options.resource_version_match.as_deref().unwrap_or_default();
    let wanted = options.resource_version.as_deref().unwrap_or_default();
    if options.send_initial_events.is_none() && rule.is_empty() && matches!(wanted, "" | "0") {
        options.send_initial_events = Some(true);
        options.resource_version_match = Some("NotOlderThan".into());
    }
}

fn validate(options: &Options) -> Result<(), ApiError> {
    let mut errors = Vec::new();
    let field = "resourceVersionMatch";
    let rule = options.resource_version_match.as_deref().unwrap_or_default();
    if options.send_initial_events.is_some() && rule != "NotOlderThan" {
        let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        errors.push(FieldError::forbidden(field, detail));
    }
    if !rule.is_empty() {
        if options.send_initial_events.is_none() {
            let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.push(FieldError::forbidden(field, detail));
        }
        if rule != "NotOlderThan" {
            errors.push(FieldError::not_supported(field, rule, &["NotOlderThan"]));
        }
        if options.continue_token.as_deref().is_some_and(|token| !token.is_empty()) {
            let detail = "resourceVersionMatch is forbidden when continue is provided";
            errors.push(FieldError::forbidden(field, detail));
        }
    }
    options::invalid_options("ListOptions", &errors)
}

fn bookmark(resource: &Resource, revision: u64, initial_events_end: bool) -> WatchEvent {
    let mut metadata = json!({ "resourceVersion": revision.to_string() });
    if initial_events_end {
        metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
    }
    WatchEvent::Bookmark(json!({
        "kind": resource.kind,
        "apiVersion": resource.api_version(),
        "metadata": metadata,
    }))
}

struct Watcher {
    server: ApiServer,
    resource: Arc<Resource>,
    selection: Selection,
    cursor: Cursor,
    queue: VecDeque<WatchEvent>,
    start: u64,
    bookmarks: bool,
    next_bookmark: Option<Instant>,
    deadline: Instant,
}

impl Watcher {
    fn new(server: &ApiServer, call: Call, selection: Selection, cursor: Cursor, queue: VecDeque<WatchEvent>) -> Self {
        let seconds = call
            .options
            .timeout_seconds
            .and_then(|s| u64::try_from(s).ok())
            .filter(|s| *s > 0);
        let seconds = seconds.unwrap_or_else(|| DEFAULT_TIMEOUT + server.clock().below(DEFAULT_TIMEOUT));
        let mut watcher = Self {
            server: server.clone(),
            resource: call.resource,
            selection,
            start: cursor.seen(),
            cursor,
            queue,
            bookmarks: call.options.allow_watch_bookmarks,
            next_bookmark: None,
            deadline: Instant::now() + Duration::from_secs(seconds),
        };
        watcher.schedule_bookmark();
        watcher
    }

    fn schedule_bookmark(&mut self) {
        let now = Instant::now();
        let last = LAST_BOOKMARKS
            .iter()
            .filter_map(|before| self.deadline.checked_sub(*before));
        let due = last.chain([now + BOOKMARK_EVERY]).filter(|due| *due > now);
        self.next_bookmark = due.min().filter(|_| self.bookmarks);
    }

    async fn next(mut self) -> Option<(WatchEvent, Self)> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Some((event, self));
            }
            if Instant::now() >= self.deadline {
                return None;
            }
            match self.cursor.advance() {
                Next::Cut => return None,
                Next::Changes(changes) => {
                    for change in changes {
                        let event = self.seen(&change);
                        self.queue.extend(event);
                    }
                }
                Next::Idle(revision, written) => {
                    let due = self.next_bookmark.unwrap_or(self.deadline);
                    tokio::select! {
                        biased;
                        () = written => {}
                        () = sleep_until(due.min(self.deadline)) => self.bookmark_if_due(revision),
                    }
                }
            }
        }
    }

    fn bookmark_if_due(&mut self, revision: u64) {
        if self.next_bookmark.is_some_and(|due| due <= Instant::now()) {
            let revision = self.server.as_of().map_or(revision, |limit| limit.min(revision));
            // A bookmark that says nothing new since the start of the watch is not sent.
            if revision > self.start {
                self.queue.push_back(bookmark(&self.resource, revision, false));
            }
            self.schedule_bookmark();
        }
    }

    /// What a write looks like through this watch.
    fn seen(&self, change: &Change) -> Option<WatchEvent> {
        let as_of = self.server.as_of();
        let too_new = as_of.is_some_and(|limit| change.revision > limit);
        if too_new || !self.selection.covers(&change.key.namespace) {
            return None;
        }
        let show = |stored: &Arc<Value>, side| {
            change
                .views
                .get_or_make(&self.resource, side, || served(&self.resource, stored))
        };
        let view = |stored: &Option<Arc<Value>>, side| {
            let object = show(stored.as_ref()?, side);
            let selected = self.selection.matches(&self.resource, &object);
            selected.then_some(object)
        };
        // Of a change within a view that selects everything only what is new is shown.
        if let (Some(_), Some(new), true) = (&change.old, &change.new, self.selection.is_empty()) {
            return Some(WatchEvent::Modified(show(new, Side::After)));
        }
        match (view(&change.old, Side::Before), view(&change.new, Side::After)) {
            (None, None) => None,
            (None, Some(new)) => Some(WatchEvent::Added(new)),
            (Some(_), Some(new)) => Some(WatchEvent::Modified(new)),
            (Some(_), None) if change.new.is_some() && self.server.broken(Rule::SelectorLeave) => None,
            (Some(old), None) => {
                let gone = || Arc::new(self.gone(change, &old));
                let views = &change.views;
                let gone = views.get_or_make(&self.resource, Side::Gone, gone);
                Some(WatchEvent::Deleted(gone))
            }
        }
    }

    /// What leaves the view, as it was, at the version at which it left.
    fn gone(&self, change: &Change, old: &Value) -> Value {
        let mut old = object::at_version(old, change.revision);
        if change.new.is_some() && self.resource.strategy.shows_otherwise() {
            // What leaves the view is not the form all watches share.
            self.resource.strategy.show(&mut old);
        }
        old
    }
}
