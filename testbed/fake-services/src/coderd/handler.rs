//! One request from arrival to answer: fault, limiter, call, log.
//!
//! Synchronous and told the time; waiting for a delay is the service's affair.

use std::time::Duration;

use aplomb_apimachinery::query::unescape;
use bytes::Bytes;
use http::header::{DATE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Request, Response, StatusCode};
use jiff::Timestamp;

use super::api::Call;
use super::core::{CoderdCore, Fault};
use super::error::ApiError;
use super::identity::{self, DAEMON_KEY, ROOT, SESSION};
use super::limiter::{Key, Level};
use super::log::Entry;
use super::users::{Role, User};
use crate::service::draft::{self, Body, ResponseDraft};
use crate::service::{FaultRequest, Outcome};

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const NOSNIFF: HeaderName = HeaderName::from_static("x-content-type-options");
const PLAIN: &str = "text/plain; charset=utf-8";

/// A request that has arrived, and whose it is.
#[derive(Debug)]
pub(super) struct Arrival<'a> {
    now: Timestamp,
    request: &'a Request<Bytes>,
    user: Option<User>,
    identity: String,
    client: String,
    bypass: bool,
}

/// What the limiter says.
enum Gate {
    /// It lets the request pass, and whether it counts it.
    Open(Option<Level>, bool),
    Reached(Level),
    /// Only owners may pass it by.
    NotOwner,
}

impl CoderdCore {
    /// Serves one request that arrives now.
    pub(super) fn serve(&mut self, now: Timestamp, request: &Request<Bytes>) -> Outcome {
        let token = identity::header(request.headers(), SESSION);
        let user = token.and_then(|token| self.store.user(token)).cloned();
        let arrival = self.arrival(now, request, user);
        let fault = self.faults.find(now, &arrival.asked());
        self.serve_with(&arrival, fault.as_ref())
    }

    /// Takes a request of a user who needs no token.
    pub(super) fn arrival<'a>(&self, now: Timestamp, request: &'a Request<Bytes>, user: Option<User>) -> Arrival<'a> {
        let known = user.as_ref().filter(|_| self.config.version.knows_users());
        let identity = known.map_or_else(|| identity::address(request), |user| user.id.clone());
        let unnamed = || user.as_ref().map_or(identity.clone(), |user| user.name.clone());
        Arrival {
            now,
            request,
            client: draft::product(request.headers()).unwrap_or_else(unnamed),
            bypass: identity::asks_bypass(request.headers()),
            identity,
            user,
        }
    }

    /// Serves a request that a fault has met, or none.
    pub(super) fn serve_with(&mut self, arrival: &Arrival<'_>, fault: Option<&Fault>) -> Outcome {
        if let Some(fault) = fault.filter(|fault| fault.is_before()) {
            self.faults.spend(fault.id);
            self.record(arrival, None, (None, false), Some(fault));
            return fault.lost();
        }
        let limited = StatusCode::TOO_MANY_REQUESTS;
        let by_order = fault.filter(|fault| fault.status() == Some(limited) && !fault.commit);
        let gate = match by_order {
            Some(_) => Gate::Open(Some(self.limiter.exhausted(arrival.now)), false),
            None => self.gate(arrival),
        };
        match gate {
            Gate::Open(level, counted) => self.admitted(arrival, (level, counted), fault),
            Gate::Reached(level) => {
                let draft = ResponseDraft::from(ApiError::limited(level.limit));
                self.reply(arrival, draft, (Some(level), false), None)
            }
            Gate::NotOwner => {
                let draft = not_owner(self.config.bypass_refusal);
                self.reply(arrival, draft, (None, false), None)
            }
        }
    }

    fn gate(&mut self, arrival: &Arrival<'_>) -> Gate {
        let path = arrival.request.uri().path();
        if !identity::clean(path).starts_with(ROOT) || self.limiter.limit() <= 0 {
            return Gate::Open(None, false);
        }
        let version = self.config.version;
        let asking = arrival.user.as_ref().filter(|_| arrival.bypass);
        match asking.filter(|_| version.knows_users()) {
            Some(user) if user.role == Role::Owner => {
                return Gate::Open(self.limiter.fresh(arrival.now), false);
            }
            Some(_) => return Gate::NotOwner,
            None => {}
        }
        let key = Key {
            identity: arrival.identity.clone(),
            path: identity::counted_path(version, path),
        };
        match self.limiter.take(arrival.now, &key) {
            Ok(level) => Gate::Open(level, true),
            Err(level) => Gate::Reached(level),
        }
    }

    fn admitted(&mut self, arrival: &Arrival<'_>, level: (Option<Level>, bool), fault: Option<&Fault>) -> Outcome {
        let draft = match fault.filter(|fault| fault.answers()) {
            None => self.carry_out(arrival),
            Some(fault) => {
                if fault.commit {
                    self.carry_out(arrival);
                }
                by_order(fault, self.limiter.limit())
            }
        };
        let Some(fault) = fault else {
            return self.reply(arrival, draft, level, None);
        };
        self.faults.spend(fault.id);
        if fault.reset.or(fault.hang).is_some() {
            self.record(arrival, None, level, Some(fault));
            return fault.lost();
        }
        self.reply(arrival, draft, level, Some(fault))
    }

    fn carry_out(&mut self, arrival: &Arrival<'_>) -> ResponseDraft {
        let request = arrival.request;
        let path = identity::clean(request.uri().path());
        let Some(rest) = path.strip_prefix(ROOT) else {
            return match path.as_str() {
                "/healthz" => plain(StatusCode::OK, "OK"),
                _ => ResponseDraft::from(ApiError::no_route()),
            };
        };
        let parts: Option<Vec<String>> = rest
            .split('/')
            .filter(|part| !part.is_empty())
            .map(|part| unescape(part, false))
            .collect();
        let Some(parts) = parts else {
            let message = "the path is not well formed";
            return ResponseDraft::from(ApiError::new(StatusCode::BAD_REQUEST, message));
        };
        let call = Call {
            now: arrival.now,
            method: request.method(),
            parts: parts.iter().map(String::as_str).collect(),
            body: request.body(),
            user: arrival.user.clone(),
            has_token: request.headers().contains_key(SESSION),
            daemon_key: identity::header(request.headers(), DAEMON_KEY),
        };
        match self.perform(&call) {
            Ok((status, body)) => ResponseDraft {
                status,
                code: None,
                body: body.map_or(Body::None, Body::Json),
            },
            Err(refusal) => ResponseDraft::from(refusal),
        }
    }

    fn reply(
        &mut self,
        arrival: &Arrival<'_>,
        draft: ResponseDraft,
        level: (Option<Level>, bool),
        fault: Option<&Fault>,
    ) -> Outcome {
        self.record(arrival, Some(draft.status), level, fault);
        let delay = fault.map_or(Duration::ZERO, Fault::delay);
        Outcome::Answer(dress(arrival.now, draft, level.0, fault), delay)
    }

    fn record(
        &mut self,
        arrival: &Arrival<'_>,
        status: Option<StatusCode>,
        (level, counted): (Option<Level>, bool),
        fault: Option<&Fault>,
    ) {
        let request = arrival.request;
        self.log.push(|n| Entry {
            n,
            time: arrival.now,
            client: arrival.client.clone(),
            user: arrival.user.as_ref().map(|user| user.name.clone()),
            identity: arrival.identity.clone(),
            method: request.method().to_string(),
            path: identity::shown_path(request.uri().path()),
            query: request.uri().query().unwrap_or_default().to_owned(),
            lane: draft::lane(request.headers()),
            bypass: arrival.bypass,
            counted,
            status: status.map(|status| status.as_u16()),
            remaining: level.map(|level| level.remaining),
            fault: fault.map(|fault| fault.id),
        });
    }
}

impl Arrival<'_> {
    fn asked(&self) -> FaultRequest<'_> {
        FaultRequest {
            method: self.request.method().as_str(),
            path: self.request.uri().path(),
            root: ROOT,
            client: &self.client,
        }
    }

    /// Names the one who asks.
    pub(super) fn named(mut self, client: &str) -> Self {
        client.clone_into(&mut self.client);
        self
    }
}

/// Puts the headers on that every answer has, and those of a fault over them.
fn dress(now: Timestamp, draft: ResponseDraft, level: Option<Level>, fault: Option<&Fault>) -> Response<Bytes> {
    let is_plain = matches!(draft.body, Body::Text(_, PLAIN));
    let mut response = draft.respond();
    let status = response.status();
    let headers = response.headers_mut();
    if is_plain {
        headers.insert(NOSNIFF, HeaderValue::from_static("nosniff"));
    }
    if !fault.is_some_and(|fault| fault.bare) {
        if let Ok(date) = HeaderValue::try_from(draft::date(now)) {
            headers.insert(DATE, date);
        }
        // Whoever may not pass the limiter by was not looked at by it.
        if let Some(level) = level.filter(|_| !is_plain) {
            say_level(headers, level, status);
        }
    }
    draft::override_headers(headers, fault);
    response
}

fn say_level(headers: &mut HeaderMap, level: Level, status: StatusCode) {
    headers.insert(LIMIT, HeaderValue::from(level.limit));
    headers.insert(REMAINING, HeaderValue::from(level.remaining));
    headers.insert(RESET, HeaderValue::from(level.reset));
    if status == StatusCode::TOO_MANY_REQUESTS {
        // Always the full window.
        headers.insert(RETRY_AFTER, HeaderValue::from(60));
    }
}

/// What a fault answers in place of the service.
fn by_order(fault: &Fault, limit: i64) -> ResponseDraft {
    let status = fault.status().unwrap_or(StatusCode::OK);
    ResponseDraft::of(fault, status).unwrap_or_else(|| match status.as_u16() {
        412 | 428 => not_owner(status),
        _ => ResponseDraft::from(ApiError::by_order(status, limit)),
    })
}

fn not_owner(status: StatusCode) -> ResponseDraft {
    let text = "\"X-Coder-Bypass-Ratelimit\" provided but user is not owner\n";
    plain(status, text)
}

fn plain(status: StatusCode, text: &str) -> ResponseDraft {
    ResponseDraft {
        status,
        code: None,
        body: Body::Text(text.to_owned(), PLAIN),
    }
}
