//! One request from arrival to answer: token, fault, rate limit, call, log.
//!
//! Synchronous and told the time; waiting for a delay is the service's affair.

use std::time::Duration;

use aplomb_apimachinery::query::Query;
use bytes::Bytes;
use http::header::{AUTHORIZATION, DATE, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Response};
use jiff::Timestamp;

use super::api::{self, Call};
use super::bucket::Level;
use super::config::Token;
use super::core::{HcloudCore, Payer};
use super::error::{self, ApiError};
use super::fault::{self, Fault};
use super::log::Entry;
use super::store::Course;
use crate::service::draft::{self, Body, ResponseDraft};
use crate::service::{FaultRequest, Outcome};

const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");
const CORRELATION: HeaderName = HeaderName::from_static("x-correlation-id");
/// What every path begins with.
const ROOT: &str = "/v1";

/// A request that has arrived, and whose it is.
struct Arrival<'a> {
    now: Timestamp,
    request: &'a Request<Bytes>,
    payer: Payer,
    client: String,
}

impl HcloudCore {
    /// Serves one request that arrives now.
    pub(super) fn serve(&mut self, now: Timestamp, request: &Request<Bytes>) -> Outcome {
        let payer = self.payer(bearer(request.headers()));
        let arrival = Arrival {
            now,
            request,
            client: client(request.headers(), &payer),
            payer,
        };
        let fault = self.faults.find(now, &arrival.asked());
        if let Some(fault) = fault.as_ref().filter(|fault| fault.is_before()) {
            self.faults.spend(fault.id);
            let level = self.bucket(&arrival.payer.bucket).peek(now);
            self.record(&arrival, None, level, Some(fault));
            return fault.lost();
        }
        match self.bucket(&arrival.payer.bucket).take(now) {
            Ok(level) => self.admitted(&arrival, level, fault.as_ref()),
            Err(level) => {
                let token = self.text_of(&arrival.payer);
                let draft = ResponseDraft::from(ApiError::rate_limited(level.limit, token));
                self.record(&arrival, Some(&draft), level, None);
                Outcome::Answer(self.dress(now, draft, level, None), Duration::ZERO)
            }
        }
    }

    fn admitted(&mut self, arrival: &Arrival<'_>, level: Level, fault: Option<&Fault>) -> Outcome {
        let draft = self.draft(arrival, fault, level);
        let Some(fault) = fault else {
            self.record(arrival, Some(&draft), level, None);
            return Outcome::Answer(self.dress(arrival.now, draft, level, None), Duration::ZERO);
        };
        self.faults.spend(fault.id);
        if fault.reset.or(fault.hang).is_some() {
            self.record(arrival, None, level, Some(fault));
            return fault.lost();
        }
        self.record(arrival, Some(&draft), level, Some(fault));
        let answer = self.dress(arrival.now, draft, level, Some(fault));
        Outcome::Answer(answer, fault.delay())
    }

    fn draft(&mut self, arrival: &Arrival<'_>, fault: Option<&Fault>, level: Level) -> ResponseDraft {
        let Some(fault) = fault.filter(|fault| fault.answers()) else {
            return self.carry_out(arrival, fault);
        };
        if fault.commit {
            self.carry_out(arrival, Some(fault));
        }
        by_order(fault, level, self.text_of(&arrival.payer))
    }

    fn carry_out(&mut self, arrival: &Arrival<'_>, fault: Option<&Fault>) -> ResponseDraft {
        let request = arrival.request;
        let Some(token) = arrival.payer.token.map(|at| &self.config.tokens[at]) else {
            let text = "unable to authenticate";
            return ResponseDraft::from(ApiError::new("unauthorized", text));
        };
        if let Err(refusal) = may(token, request.method()) {
            return ResponseDraft::from(refusal);
        }
        let Some(path) = request.uri().path().strip_prefix(ROOT) else {
            return ResponseDraft::from(ApiError::new("not_found", "paths begin with /v1"));
        };
        let project = token.project.clone();
        let course = self.course(request.method(), fault);
        let call = Call {
            now: arrival.now,
            method: request.method(),
            path,
            query: &Query::parse(request.uri().query().unwrap_or_default()),
            body: request.body(),
            project: &project,
            course,
            same_server: self.config.same_server_assign,
        };
        match api::perform(&mut self.store, &call) {
            Ok((status, body)) => ResponseDraft {
                status,
                code: None,
                body: body.map_or(Body::None, Body::Json),
            },
            Err(refusal) => ResponseDraft::from(refusal),
        }
    }

    fn text_of(&self, payer: &Payer) -> Option<&str> {
        payer.token.map(|at| self.config.tokens[at].text.as_str())
    }

    fn course(&mut self, method: &Method, fault: Option<&Fault>) -> Course {
        let course = if method == Method::GET {
            Course::success(Duration::ZERO)
        } else {
            self.draw_course()
        };
        match fault.and_then(|fault| fault.action.as_ref()) {
            Some(action) => action.bend(&course),
            None => course,
        }
    }

    fn record(&mut self, arrival: &Arrival<'_>, draft: Option<&ResponseDraft>, level: Level, fault: Option<&Fault>) {
        let request = arrival.request;
        self.log.push(|n| Entry {
            n,
            time: arrival.now,
            client: arrival.client.clone(),
            token: arrival.payer.token.map(Payer::label),
            bucket: arrival.payer.bucket.clone(),
            method: request.method().to_string(),
            path: request.uri().path().to_owned(),
            query: request.uri().query().unwrap_or_default().to_owned(),
            status: draft.map(|draft| draft.status.as_u16()),
            code: draft.and_then(|draft| draft.code.clone()),
            remaining: level.remaining,
            lane: draft::lane(request.headers()),
            fault: fault.map(|fault| fault.id),
        });
    }

    /// Puts the headers on that every answer has, and those of a fault over them.
    fn dress(&self, now: Timestamp, draft: ResponseDraft, level: Level, fault: Option<&Fault>) -> Response<Bytes> {
        let mut response = draft.respond();
        let headers = response.headers_mut();
        if !fault.is_some_and(|fault| fault.bare) {
            self.say_level(headers, now, level);
        }
        draft::override_headers(headers, fault);
        response
    }

    fn say_level(&self, headers: &mut HeaderMap, now: Timestamp, level: Level) {
        headers.insert(LIMIT, HeaderValue::from(level.limit));
        headers.insert(REMAINING, HeaderValue::from(level.remaining));
        headers.insert(RESET, HeaderValue::from(level.reset));
        let id = format!("{:016x}", self.correlation());
        for (name, text) in [(DATE, draft::date(now)), (CORRELATION, id)] {
            if let Ok(value) = HeaderValue::try_from(text) {
                headers.insert(name, value);
            }
        }
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
}

impl From<ApiError> for ResponseDraft {
    fn from(error: ApiError) -> Self {
        Self {
            status: error.status,
            body: Body::Json(error.body()),
            code: Some(error.code),
        }
    }
}

/// What a fault answers in place of the service.
fn by_order(fault: &Fault, level: Level, token: Option<&str>) -> ResponseDraft {
    let status = fault::status(fault);
    if let Some(draft) = ResponseDraft::of(fault, status) {
        return draft;
    }
    let usual = || error::code_of(status).to_owned();
    let code = fault.code.clone().unwrap_or_else(usual);
    let error = if code == "rate_limit_exceeded" {
        ApiError::rate_limited(level.limit, token)
    } else {
        ApiError::new(&code, format!("{code} by order"))
    };
    ResponseDraft {
        status,
        ..ResponseDraft::from(error)
    }
}

fn may(token: &Token, method: &Method) -> Result<(), ApiError> {
    if token.read_only && method != Method::GET {
        let text = "token is read-only";
        return Err(ApiError::new("token_readonly", text));
    }
    Ok(())
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let given = headers.get(AUTHORIZATION)?.to_str().ok()?;
    given.strip_prefix("Bearer ").map(str::trim)
}

/// The product a client names itself after, else its token's label.
fn client(headers: &HeaderMap, payer: &Payer) -> String {
    let unnamed = || {
        let label = payer.token.map(Payer::label);
        label.unwrap_or_else(|| "unknown".to_owned())
    };
    draft::product(headers).unwrap_or_else(unnamed)
}
