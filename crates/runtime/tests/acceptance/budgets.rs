//! After a refusal with a reset time, no object calls that target before it; afterwards the rate is at
//! most that of the budget, with the reserve lane served first.

use std::time::Duration;

use aplomb::call_context::CallContext;
use aplomb::ratelimit::{KUBERNETES, LimitConfig, LimitLane, LimitLaneConfig, api};
use aplomb::{Error, ErrorClass};
use aplomb_simulation::faults::{Fault, Match, Rule};
use aplomb_simulation::{Run, Simulation};
use futures::future::join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::gated::{Gated, requests};

const OBJECTS: usize = 1000;
const URGENT: usize = 5;
const RATE: f64 = 40.0;
const RESET: Duration = Duration::from_secs(30);
const SECOND: Duration = Duration::from_secs(1);

/// How the objects reach their server.
#[derive(Clone, Copy)]
enum Through {
    Gate,
    /// kube's client as it comes.
    Kube,
    /// kube's client without its retries.
    Nothing,
}

/// A small budget with a reserve for status writes.
fn config() -> LimitConfig {
    let lane = |name: &str, reserve| LimitLaneConfig {
        name: name.to_owned(),
        reserve,
        slots: 1,
    };
    LimitConfig {
        rate: RATE,
        burst: 100,
        concurrency: 50,
        lanes: vec![lane("lease", 0), lane("status", 10), lane("work", 0)],
        header_formats: vec![KUBERNETES],
        ramp: Duration::from_secs(5),
        longest_wait: Duration::from_secs(3600),
    }
}

/// Retries until it is written, without waiting as requested: an event wakes it every second.
async fn object(client: Client, name: String, lane: LimitLane) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let params = PatchParams::apply("operator");
    loop {
        let scope = CallContext {
            deadline: Instant::now() + Duration::from_secs(20),
            lane,
        };
        let write = async { maps.patch(&name, &params, &Patch::Apply(&map)).await };
        match scope.run(write).await {
            Ok(_) => return,
            Err(error) => assert_eq!(Error::from(error).class(), ErrorClass::Throttled),
        }
        sleep(SECOND).await;
    }
}

/// A thousand objects that write while the server rejects every write until [`RESET`].
fn throttled(fault: Fault, through: Through) -> Run<u64> {
    let world = Simulation::new(6).interpose(aplomb_virtual_time::install);
    world.run(move |cluster| async move {
        let refusal = Rule::new(fault).on(Match::writes());
        cluster.faults("operator").add(refusal.between(Duration::ZERO, RESET));
        let client = match through {
            Through::Nothing => cluster.plain_client("operator"),
            _ => cluster.client("operator"),
        };
        let gated = Gated::with_config(client.clone(), config());
        let client = match through {
            Through::Gate => &gated.client,
            _ => &client,
        };
        let usual = (0..OBJECTS).map(|number| (format!("usual-{number}"), api::WORK));
        let urgent = (0..URGENT).map(|number| (format!("urgent-{number}"), api::STATUS));
        let objects = usual.chain(urgent);
        join_all(objects.map(|(name, lane)| object(client.clone(), name, lane))).await;
        gated.telemetry.budget.throttled("apiserver")
    })
}

/// Requests after the first moment and before the reset.
fn early_requests(sent: &[(Duration, String)]) -> usize {
    let early = sent.iter().filter(|(at, _)| !at.is_zero() && *at < RESET);
    early.count()
}

/// The most requests of any second after the reset.
fn busiest_second(sent: &[(Duration, String)]) -> usize {
    let after = || sent.iter().map(|(at, _)| *at).filter(|at| *at >= RESET);
    let within = |from: Duration| after().filter(|at| (from..from + SECOND).contains(at)).count();
    after().map(within).max().unwrap_or(0)
}

fn refusals() -> [Fault; 2] {
    let retry_after = RESET.as_secs() as u32;
    [
        Fault::TooManyRequestsText { retry_after },
        Fault::TooManyRequests { retry_after },
    ]
}

#[test]
fn refusal_delays_a_thousand_objects_and_admits_them_at_the_rate() {
    for fault in refusals() {
        let run = throttled(fault.clone(), Through::Gate);
        let sent = requests(&run.trace, "operator");
        assert_eq!(early_requests(&sent), 0, "{fault}: no call before the reset");
        let after: Vec<_> = sent.iter().filter(|(at, _)| *at >= RESET).collect();
        assert_eq!(after.len(), OBJECTS + URGENT, "no call is rejected again");
        assert_eq!(
            run.value as usize,
            sent.len() - after.len(),
            "each rejected call is counted"
        );
        for (number, (at, _)) in (1..).zip(&after) {
            let most = RATE * (*at - RESET).as_secs_f64();
            assert!(f64::from(number) <= most + 0.1, "{number} calls by {at:?}");
        }
        assert!(busiest_second(&sent) <= RATE as usize + 1);
        let first = &after[..URGENT];
        assert!(first.iter().all(|(_, url)| url.contains("/urgent-")), "{first:?}");
    }
}

#[test]
fn unlimited_client_calls_continuously_or_in_bursts() {
    let [fault, _] = refusals();
    let nothing = throttled(fault.clone(), Through::Nothing);
    let before = early_requests(&requests(&nothing.trace, "operator"));
    assert!(before > 10_000, "{before} calls before the reset");
    let kube = throttled(fault, Through::Kube);
    let busiest = busiest_second(&requests(&kube.trace, "operator"));
    assert!(busiest > 10 * RATE as usize, "{busiest} calls in one second after it");
}
