//! Promise: conflicts neither stall a tunnel nor revert a condition. Whichever writes of a new tunnel get
//! 409s, the next attempt follows within a second, and the tunnel is ready within two seconds of the last.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aplomb_api::tunnel::HttpProxy;
use aplomb_simulation::faults::{Fault, Match, Rule};
use futures::{StreamExt, future};
use kube::Api;
use kube::api::{WatchEvent, WatchParams};
use tokio::time::{Instant, sleep};

use crate::lab::{TENANT, create_tunnel, seconds};
use crate::system::{TunnelSystem, on_box, on_real};

/// The object whose writes conflict.
#[derive(Clone, Copy, Debug)]
enum ConflictPlace {
    Gateway,
    Route,
    Slice,
    Status,
}

const ALL_PLACES: [ConflictPlace; 4] = [
    ConflictPlace::Gateway,
    ConflictPlace::Route,
    ConflictPlace::Slice,
    ConflictPlace::Status,
];

impl ConflictPlace {
    /// The name of a tunnel with conflicts only there.
    fn tunnel(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    fn writes(self) -> Match {
        let name = self.tunnel();
        let writes = Match::writes().name(&name);
        match self {
            Self::Gateway => writes.resource("gateways").subresource(""),
            Self::Route => writes.resource("httproutes").subresource(""),
            Self::Slice => writes.resource("endpointslices"),
            Self::Status => writes.resource("httpproxies").subresource("status"),
        }
    }

    fn path(self) -> String {
        let name = self.tunnel();
        match self {
            Self::Gateway => format!("/gateways/{name}"),
            Self::Route => format!("/httproutes/{name}"),
            Self::Slice => format!("/endpointslices/{name}"),
            Self::Status => format!("/httpproxies/{name}/status"),
        }
    }
}

/// The cost of a burst.
#[derive(Clone, Copy, Debug)]
struct BurstCost {
    conflicts: usize,
    /// The longest time from a conflict to the next attempt.
    longest_gap: Duration,
    /// From the last conflict until it was ready.
    ready: Duration,
}

/// `length` conflicts in each of these places, each in its own tunnel, all at once.
async fn bursts(plant: TunnelSystem, places: &'static [ConflictPlace], length: u64, careless: bool) -> Vec<BurstCost> {
    for place in places {
        let rule = Rule::new(Fault::Conflict).on(place.writes());
        plant.faults.add(rule.first(length));
    }
    let lowered = LostConditions::default();
    let scenario = async {
        let made = places.iter().map(|place| burst(&plant, *place, length));
        future::join_all(made).await
    };
    let watched = async {
        tokio::select! { biased;
            costs = scenario => costs,
            () = lowered.follow(&plant) => panic!("the watch ended"),
        }
    };
    let costs = plant.run_with(careless, watched).await;
    assert_eq!(lowered.all(), Vec::<String>::new(), "conditions were lowered");
    costs
}

async fn burst(plant: &TunnelSystem, place: ConflictPlace, length: u64) -> BurstCost {
    let name = place.tunnel();
    create_tunnel(&plant.user, &name, "laptop").await;
    let proxies: Api<HttpProxy> = Api::namespaced(plant.user.clone(), TENANT);
    let (began, limit) = (Instant::now(), seconds(60 * length + 60));
    let met = || plant.answers.burst(&place.path());
    while met().is_none_or(|it| (it.conflicts as u64) < length) || !is_ready(&proxies, &name).await {
        assert!(began.elapsed() < limit, "{place:?}: not ready after {limit:?}");
        sleep(Duration::from_millis(20)).await;
    }
    let met = met().expect("there were conflicts");
    BurstCost {
        conflicts: met.conflicts,
        longest_gap: met.longest_gap,
        ready: met.last.elapsed(),
    }
}

async fn is_ready(proxies: &Api<HttpProxy>, name: &str) -> bool {
    let proxy = proxies.get(name).await.expect("the tunnel exists");
    true_conditions(&proxy).contains("Ready")
}

/// The conditions that are true, except those that report ongoing work.
fn true_conditions(proxy: &HttpProxy) -> BTreeSet<String> {
    let conditions = proxy.status.iter().flat_map(|it| &it.conditions);
    let conditions = conditions.filter(|it| it.status == "True" && it.type_ != "Reconciling");
    conditions.map(|it| it.type_.clone()).collect()
}

/// Conditions that were true and then were not.
#[derive(Clone, Default)]
struct LostConditions(Arc<Mutex<Vec<String>>>);

impl LostConditions {
    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    async fn follow(&self, plant: &TunnelSystem) {
        let proxies: Api<HttpProxy> = Api::namespaced(plant.user.clone(), TENANT);
        let mut last = std::collections::BTreeMap::new();
        loop {
            let Ok(stream) = proxies.watch(&WatchParams::default(), "0").await else {
                // A server responds with 429 until its storage for a new kind is ready.
                sleep(Duration::from_millis(50)).await;
                continue;
            };
            let mut stream = stream.boxed();
            while let Some(Ok(event)) = stream.next().await {
                let (WatchEvent::Added(proxy) | WatchEvent::Modified(proxy)) = event else {
                    continue;
                };
                let name = proxy.metadata.name.clone().unwrap_or_default();
                let now = true_conditions(&proxy);
                let before: BTreeSet<String> = last.insert(name.clone(), now.clone()).unwrap_or_default();
                let gone = before.difference(&now).map(|it| format!("{name}: {it}"));
                self.0.lock().unwrap().extend(gone);
            }
        }
    }
}

fn show(length: u64, costs: &[BurstCost]) {
    for (place, cost) in ALL_PLACES.iter().zip(costs) {
        println!(
            "{length:>3} conflicts on {:<8} next attempt within {:>6.3} s, ready {:>6.3} s after the last",
            format!("{place:?}"),
            cost.longest_gap.as_secs_f64(),
            cost.ready.as_secs_f64()
        );
    }
}

#[test]
fn bursts_of_conflicts_are_followed_by_an_attempt_in_a_second_and_ready_in_two() {
    for length in [1, 15, 200] {
        let run = move |plant| bursts(plant, &ALL_PLACES, length, false);
        let costs = on_box(length, run);
        show(length, &costs);
        for (place, cost) in ALL_PLACES.iter().zip(&costs) {
            assert_eq!(cost.conflicts as u64, length, "{place:?}");
            assert!(cost.longest_gap <= seconds(1), "{place:?}: {cost:?}");
            assert!(cost.ready <= seconds(2), "{place:?}: {cost:?}");
        }
    }
}

#[test]
fn conflicts_on_the_failure_backoff_cause_long_gaps() {
    let costs = on_box(1, |plant| bursts(plant, &ALL_PLACES, 15, true));
    show(15, &costs);
    for (place, cost) in ALL_PLACES.iter().zip(&costs) {
        let kept = cost.longest_gap <= seconds(1) && cost.ready <= seconds(2);
        assert!(!kept, "the careless client must break the promise: {place:?}, {cost:?}");
    }
}

#[test]
fn without_faults_there_is_no_conflict_at_all() {
    let conflicts = on_box(1, |plant| async move {
        let proxies: Api<HttpProxy> = Api::namespaced(plant.user.clone(), TENANT);
        let scenario = async {
            for number in 0..20 {
                create_tunnel(&plant.user, &format!("t{number}"), "laptop").await;
            }
            for number in 0..20 {
                while !is_ready(&proxies, &format!("t{number}")).await {
                    sleep(Duration::from_millis(20)).await;
                }
            }
        };
        plant.run_with(false, scenario).await;
        plant.answers.conflicts()
    });
    println!("20 tunnels at once: {conflicts} conflicts");
    assert_eq!(conflicts, 0);
}

/// The same on a real server, with limits that a noisy machine can meet: five times the promise.
pub fn on_a_real_server(length: u64) {
    let costs = on_real(move |plant| bursts(plant, &ALL_PLACES, length, false));
    show(length, &costs);
    for (place, cost) in ALL_PLACES.iter().zip(&costs) {
        assert_eq!(cost.conflicts as u64, length, "{place:?}");
        assert!(cost.longest_gap <= seconds(5), "{place:?}: {cost:?}");
        assert!(cost.ready <= seconds(10), "{place:?}: {cost:?}");
    }
}

#[test]
#[ignore = "needs the real control plane"]
fn real_bursts_of_conflicts_are_followed_by_an_attempt_and_ready() {
    for length in [1, 15] {
        on_a_real_server(length);
    }
}
