//! Plays a story with one crash or one fault in it, at a point of an earlier recorded run.

use std::time::Duration;

use aplomb_fake_services::coderd::Role;
use aplomb_simulation::Crash;
use serde_json::{Value, json};

use crate::lab::{Around, Lab};
use crate::operator::Replica;
use crate::scenario::Story;
use crate::wire::Flaw;

/// The fault of one run.
#[derive(Clone, Debug, Default)]
pub struct Trouble {
    /// The operator crashes.
    pub crash: Option<Crash>,
    /// The request with this number, counted from 1, fails like this.
    pub fault: Option<(u64, Mode)>,
    /// A fault of the transport to the servers.
    pub flaw: Flaw,
    /// Whether the spec enables the bypass.
    pub bypass: bool,
}

/// How a request fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The response has this status, and the request is not executed.
    Refused(u16),
    /// The request is executed, and the response has this status.
    Done(u16),
    /// The connection is lost before the request arrives.
    LostBefore,
    /// The connection is lost after the request was executed.
    LostAfter,
    /// The request never arrives, and the connection stays open.
    HangsBefore,
    /// The request is executed, and no response ever arrives.
    HangsAfter,
    /// The request is executed, and the response is not JSON.
    Garbage,
}

/// Every class of failure.
pub const MODES: [Mode; 18] = [
    Mode::Refused(400),
    Mode::Refused(401),
    Mode::Refused(403),
    Mode::Refused(404),
    Mode::Refused(409),
    Mode::Refused(412),
    Mode::Refused(428),
    Mode::Refused(429),
    Mode::Refused(500),
    Mode::Refused(502),
    Mode::Refused(503),
    Mode::Done(500),
    Mode::Done(504),
    Mode::LostBefore,
    Mode::LostAfter,
    Mode::HangsBefore,
    Mode::HangsAfter,
    Mode::Garbage,
];

impl Mode {
    /// The fault in the format of the simulator.
    pub fn fault(self, skip: u64) -> Value {
        let mut fault = match self {
            Self::Refused(status) => json!({ "status": status }),
            Self::Done(status) => json!({ "status": status, "commit": true }),
            Self::LostBefore => json!({ "reset": "before" }),
            Self::LostAfter => json!({ "reset": "after" }),
            Self::HangsBefore => json!({ "hang": "before" }),
            Self::HangsAfter => json!({ "hang": "after" }),
            Self::Garbage => json!({ "status": 200, "commit": true, "body": "<html>" }),
        };
        fault["skip"] = skip.into();
        fault["times"] = 1.into();
        fault
    }
}

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Played {
    pub verdict: Result<(), String>,
    /// The effects of the operator: number and text.
    pub effects: Vec<(u64, String)>,
    /// The requests to the server: method and path.
    pub requests: Vec<String>,
    pub trace: Vec<String>,
}

/// Plays a story with a fault.
pub fn play(story: Story, seed: u64, trouble: &Trouble) -> Played {
    let trouble = trouble.clone();
    let around = Around::with_seed(seed).with_server(|it| {
        // Only owners manage proxies; and a short heartbeat shows soon which ones are gone.
        if story == Story::Proxy {
            it.role = Role::Owner;
        }
        it.heartbeat = Duration::from_secs(10);
    });
    let run = around.record(move |lab| async move {
        let replica = Replica::start_flawed(&lab, "first", trouble.flaw);
        if let Some(crash) = trouble.crash {
            replica.component.crash_at(crash);
        }
        if let Some((number, mode)) = trouble.fault {
            lab.coderd.fault(&mode.fault(number - 1));
        }
        let verdict = story.play(&lab, trouble.bypass).await;
        (verdict, requests(&lab))
    });
    let (verdict, requests) = run.value;
    Played {
        verdict,
        effects: run.trace.iter().filter_map(|line| effect(line)).collect(),
        requests,
        trace: run.trace,
    }
}

fn requests(lab: &Lab) -> Vec<String> {
    let all = lab.coderd.requests(0).into_iter();
    all.map(|it| format!("{} {}", it.method, it.path)).collect()
}

/// Number and text of an effect, except lease renewals and Events, on which nothing depends.
fn effect(line: &str) -> Option<(u64, String)> {
    let (_, effect) = line.split_once(" first effect ")?;
    let (number, what) = effect.split_once(' ')?;
    let aside = what.contains("leases") || what.contains("events");
    (!aside).then_some((number.parse().ok()?, what.to_owned()))
}
