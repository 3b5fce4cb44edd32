//! Calls to the provider and the remaining rate limit.
//!
//! An account is named after the Secret of its token. No part of a token may appear here, so error codes, which the
//! provider chooses, are exported only if they are plain words.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::DescriptorEncoder;
use tracing::{debug, info, warn};

use super::{EgressCounters, Metric, Occurrence, Sample, encode_counters, encode_gauges};
use crate::egress::RemainingCalls;

const THROTTLED: &str = "rate_limit_exceeded";
const LANES: [&str; 3] = ["failover", "routine", "probe"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HcloudOperation {
    List,
    Get,
    Assign,
    Action,
    Label,
}

impl HcloudOperation {
    const ALL: [Self; 5] = [Self::List, Self::Get, Self::Assign, Self::Action, Self::Label];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Get => "get",
            Self::Assign => "assign",
            Self::Action => "action",
            Self::Label => "label",
        }
    }

    #[must_use]
    pub const fn is_read(self) -> bool {
        matches!(self, Self::List | Self::Get)
    }
}

type Request = (HcloudOperation, String, &'static str);

#[derive(Debug)]
pub(super) struct AccountCounters {
    requests: BTreeMap<Request, u64>,
    reads: u64,
    budget: Option<Budget>,
}

#[derive(Clone, Copy, Debug)]
struct Budget {
    seen: RemainingCalls,
    others: f64,
    empty: Option<Duration>,
}

/// A counter must exist at 0 before its first increase, or Prometheus misses that.
impl Default for AccountCounters {
    fn default() -> Self {
        let refusals = LANES.into_iter().flat_map(|lane| {
            let refused = move |operation| ((operation, THROTTLED.to_owned(), lane), 0);
            HcloudOperation::ALL.map(refused)
        });
        Self {
            requests: refusals.collect(),
            reads: 0,
            budget: None,
        }
    }
}

const COUNTERS: &[Metric<AccountCounters, u64>] = &[
    Metric {
        name: "aplomb_egress_provider_requests",
        help: "Calls to the provider, by operation, status or error code, and lane",
        read: |account| {
            let requests = account.requests.iter();
            requests
                .map(|((operation, code, lane), count)| {
                    let operation = ("operation", operation.as_str());
                    (vec![operation, ("code", code.as_str()), ("lane", *lane)], *count)
                })
                .collect()
        },
    },
    Metric {
        name: "aplomb_egress_provider_reads",
        help: "Reads of floating IPs at the provider",
        read: |account| vec![(Vec::new(), account.reads)],
    },
];

const GAUGES: &[Metric<AccountCounters, f64>] = &[
    Metric {
        name: "aplomb_egress_budget_remaining",
        help: "Remaining calls of the rate limit, as the provider last reported",
        read: |account| budget_samples(account, |budget| Some(budget.seen.remaining.into())),
    },
    Metric {
        name: "aplomb_egress_budget_limit",
        help: "The provider's rate limit, calls per hour",
        read: |account| budget_samples(account, |budget| Some(budget.seen.limit.into())),
    },
    Metric {
        name: "aplomb_egress_budget_others_per_second",
        help: "Estimated calls per second of other clients that share the rate limit",
        read: |account| budget_samples(account, |budget| Some(budget.others)),
    },
    Metric {
        name: "aplomb_egress_budget_empty_seconds",
        help: "When the rate limit will be exhausted at the current rate; absent if never",
        read: |account| budget_samples(account, |budget| Some(budget.empty?.as_secs_f64())),
    },
];

fn budget_samples(account: &AccountCounters, read: fn(&Budget) -> Option<f64>) -> Vec<Sample<'_, f64>> {
    let value = account.budget.as_ref().and_then(read);
    value.map(|value| (Vec::new(), value)).into_iter().collect()
}

pub(super) fn encode(
    accounts: &BTreeMap<String, AccountCounters>,
    leads: bool,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    encode_counters(COUNTERS, "account", accounts, encoder)?;
    match leads {
        true => encode_gauges(GAUGES, "account", accounts, encoder),
        false => Ok(()),
    }
}

#[derive(Clone, Copy, Debug)]
pub struct ProviderCall<'a> {
    /// The account: the name of the Secret of its token.
    pub account: &'a str,
    pub operation: HcloudOperation,
    /// The HTTP status, the `error.code` of a refusal, or a code for a missing response.
    pub code: &'a str,
    /// `failover` or `routine`.
    pub lane: &'static str,
}

impl Occurrence for ProviderCall<'_> {
    fn emit(self, ledger: &mut EgressCounters) {
        let code = code_label(self.code);
        let account = ledger.accounts.entry(self.account.to_owned()).or_default();
        account.reads += u64::from(self.operation.is_read());
        let request = (self.operation, code.to_owned(), self.lane);
        *account.requests.entry(request).or_default() += 1;
        let (name, operation, lane) = (self.account, self.operation.as_str(), self.lane);
        if code == THROTTLED && lane == LANES[0] {
            warn!(
                account = name,
                operation, lane, "Provider rate limit refused a call of a move"
            );
        } else {
            debug!(account = name, operation, lane, code, "Called the provider");
        }
    }
}

/// `code` if it is a plain word; otherwise a generic one.
fn code_label(code: &str) -> &str {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if (1..=32).contains(&code.len()) && code.chars().all(word) {
        code
    } else {
        "other"
    }
}

/// The rate limit as the provider reported it, with the forecast.
#[derive(Clone, Copy, Debug)]
pub struct ForecastReported<'a> {
    pub account: &'a str,
    pub seen: RemainingCalls,
    /// Spending of others, calls per second.
    pub others: f64,
    /// When it will be exhausted; `None` if it will not.
    pub empty: Option<Duration>,
}

impl Occurrence for ForecastReported<'_> {
    fn emit(self, ledger: &mut EgressCounters) {
        let Self {
            seen, others, empty, ..
        } = self;
        let account = ledger.accounts.entry(self.account.to_owned()).or_default();
        let before = account.budget.replace(Budget { seen, others, empty });
        let low = |seen: RemainingCalls| seen.remaining < seen.limit / 4;
        let was = before.is_some_and(|before| low(before.seen));
        let (account, remaining, limit) = (self.account, seen.remaining, seen.limit);
        if low(seen) && !was {
            warn!(
                account,
                remaining, limit, others, "Provider rate limit is below a quarter"
            );
        } else if was && !low(seen) {
            info!(account, remaining, limit, "Provider rate limit recovered");
        }
    }
}
