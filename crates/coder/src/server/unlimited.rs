//! No gate and no budget: every call may go at once.

use std::time::Duration;

use aplomb_api::coder::RateLimited;
use http::HeaderMap;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::object::Object;

pub(super) enum Lane {
    Delete,
    Write,
    Look,
}

#[derive(Clone)]
pub(super) struct Account;

pub(super) struct Permit;

#[allow(dead_code, reason = "nothing is put off without a budget")]
pub(super) enum Turn {
    Now(Permit),
    Later { until: Instant, limited: bool },
}

impl Account {
    pub(super) fn new(_: &str, _: super::Tell) -> Self {
        Self
    }

    pub(super) fn turn(&self, _: &Object, _: Lane, _: &str, _: Instant) -> Turn {
        Turn::Now(Permit)
    }

    pub(super) fn forget(&self, _: &Object) {}
}

impl Permit {
    pub(super) fn answered(self, _: u16, _: &HeaderMap, _: Instant, _: Instant, _: Timestamp) {}

    pub(super) fn unanswered(self) {}
}

pub(super) struct Gates;

impl Gates {
    pub(super) fn new(_: u64) -> Self {
        Self
    }

    pub(super) fn not_before(
        &self,
        _: &Object,
        _: Option<&RateLimited>,
        _: (Instant, Timestamp),
    ) -> Option<Instant> {
        None
    }

    pub(super) fn refused(&self, _: &Object, _: Instant) -> Duration {
        Duration::ZERO
    }

    pub(super) fn answered(&self, _: &Object) {}

    pub(super) fn forget(&self, _: &Object) {}
}
