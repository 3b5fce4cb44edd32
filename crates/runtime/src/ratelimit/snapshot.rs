//! A budget at one moment, for people and for `/debug/state.json`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ledger::BucketModel;

/// A budget at one moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LimiterSnapshot {
    /// The target's name.
    pub target: String,
    /// Calls a second at this moment.
    pub rate: f64,
    /// Calls that could be made at once after a quiet time, reserves included; 0 if that is not known.
    pub capacity: f64,
    /// How long no call is allowed, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed_for_seconds: Option<f64>,
    /// The lanes, most urgent first.
    pub lanes: Vec<LimiterLaneSnapshot>,
}

/// A lane of a budget at one moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LimiterLaneSnapshot {
    /// Its name.
    pub name: String,
    /// Calls it could make at once.
    pub tokens: f64,
    /// How many of them no other lane may make.
    pub reserve: f64,
    /// Calls that wait.
    pub waiting: usize,
    /// Calls on their way.
    pub in_flight: usize,
}

impl LimiterSnapshot {
    pub(super) fn from_model(target: &str, ledger: &BucketModel, now: Duration) -> Self {
        let lane = |(index, name): (usize, &String)| {
            let (tokens, waiting, in_flight) = ledger.lane_levels(index);
            LimiterLaneSnapshot {
                name: name.clone(),
                tokens,
                reserve: ledger.lanes[index].reserve.level(),
                waiting,
                in_flight,
            }
        };
        let closed = ledger.closed_until(now);
        let names = ledger.config.lanes.iter().map(|lane| &lane.name);
        Self {
            target: target.to_owned(),
            rate: ledger.flow.rate(now).0,
            capacity: f64::from(ledger.config.burst),
            closed_for_seconds: closed.map(|until| until.saturating_sub(now).as_secs_f64()),
            lanes: names.enumerate().map(lane).collect(),
        }
    }
}
