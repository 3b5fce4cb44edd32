//! Promise: after a crash at any point, the restarted gateway serves and reports the same; and the same seed
//! gives the same trace.

use aplomb_simulation::{Crash, CrashPoint};
use tokio::time::sleep;

use crate::lab::{Lab, on_box, seconds};
use crate::replica::Replica;

const GATEWAY: &str = "gateway-1";

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FinalState {
    hosts: usize,
    serves: bool,
    acknowledged: bool,
    tunnels: i32,
    lost: usize,
    session: Option<String>,
}

/// One scenario of a gateway; returns its final state and the number of its effects.
async fn run_day(lab: Lab, crash: Option<Crash>) -> (FinalState, u64) {
    let replica = Replica::start(&lab, GATEWAY);
    crash.into_iter().for_each(|crash| replica.component.crash_at(crash));
    lab.create_connector("laptop", "s1").await;
    let first = lab.create_tunnel("first").await;
    sleep(seconds(3)).await;
    let kept = lab.create_tunnel("kept").await;
    lab.create_connector("laptop", "s2").await;
    sleep(seconds(3)).await;
    lab.delete(&first).await;
    sleep(seconds(3)).await;
    let effects = replica.component.effects();
    sleep(seconds(30)).await;
    let said = lab.replica_spec(GATEWAY).expect("it is registered");
    let laptop = aplomb::ObjectKey::new(Some(crate::lab::TENANT), "laptop");
    let end = FinalState {
        hosts: replica.hosts().len(),
        serves: replica.has_backend(&kept.hostname()) && replica.has_backend("kept.example.com"),
        acknowledged: lab.is_acknowledged(GATEWAY, &kept),
        tunnels: said.tunnels,
        lost: said.lost.len(),
        session: replica.session(&laptop),
    };
    (end, effects)
}

fn expected_state() -> FinalState {
    FinalState {
        hosts: 2,
        serves: true,
        acknowledged: true,
        tunnels: 1,
        lost: 0,
        session: Some("s2".to_owned()),
    }
}

#[test]
fn a_crash_before_or_after_any_effect_changes_nothing_in_the_end() {
    let ((end, effects), _) = on_box(21, |lab| run_day(lab, None));
    assert_eq!(end, expected_state(), "without a crash");
    let mut runs = 0;
    for effect in 1..=effects {
        for point in [CrashPoint::BeforeSend, CrashPoint::AfterCommit] {
            let crash = Crash { effect, point };
            let ((end, _), _) = on_box(21, move |lab| run_day(lab, Some(crash)));
            assert_eq!(end, expected_state(), "crash {crash:?}");
            runs += 1;
        }
    }
    println!("{effects} effects of the gateway, before and after each: {runs} crashes, all converged");
    assert!(effects >= 4, "{effects} effects are too few");
}

#[test]
fn the_same_seed_makes_the_same_trace() {
    let trace = |seed| on_box(seed, |lab| run_day(lab, None)).1;
    let (one, other) = (trace(22), trace(22));
    assert!(one == other, "two runs with one seed differ");
    assert!(one.len() > 100);
}
