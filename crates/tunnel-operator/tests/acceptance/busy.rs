//! Promise: slow gateways, or a deletion that is seen late, cause no additional writes to a tunnel; and an
//! outage that lasts shows within one proof interval.

use std::time::Duration;

use aplomb_api::tunnel::HttpProxy;
use aplomb_simulation::faults::{Fault, Match, Rule, WatchFault};
use kube::Api;
use kube::api::DeleteParams;
use tokio::time::sleep;

use crate::agent::Agent;
use crate::gateway::Gateway;
use crate::lab::{Lab, TENANT, assert_throughout, create_tunnel, on_box, seconds, until};
use crate::operator::Operator;

/// The default proof interval.
const INTERVAL: Duration = Duration::from_secs(10);
/// Longer than the timeouts of two probes.
const BUSY_TIME: Duration = Duration::from_millis(2_500);

async fn start_system(lab: &Lab) -> (Operator, Gateway, Agent) {
    let all = (
        Operator::start(lab, "operator"),
        Gateway::start(lab, 1),
        Agent::start(lab, "laptop", seconds(30)),
    );
    lab.wait_online("laptop", seconds(20)).await;
    sleep(seconds(5)).await;
    all
}

/// The operator's writes to the status of the tunnel so far, including rejected ones.
fn status_writes(lab: &Lab) -> Vec<String> {
    let mut all = lab.cluster.trace().lines();
    all.retain(|line| line.contains("PATCH") && line.contains("httpproxies/web/status"));
    all
}

#[test]
fn gateways_that_are_busy_for_moments_cost_no_write() {
    on_box(1, |lab| async move {
        let _all = start_system(&lab).await;
        create_tunnel(&lab.user(), "web", "laptop").await;
        lab.net.set_busy(BUSY_TIME);
        lab.wait_ready("web", seconds(5)).await;
        for _ in 0..5 {
            lab.net.set_busy(BUSY_TIME);
            let ready = || lab.is_ready("web");
            assert_throughout(seconds(17), "the tunnel is ready", ready).await;
        }
        let told = status_writes(&lab);
        println!("busy for short times: {told:#?}");
        assert_eq!(told.len(), 2, "one write for a new tunnel, and one when it is proven");
    });
}

#[test]
fn gateways_that_stay_silent_show_within_the_interval() {
    on_box(1, |lab| async move {
        let _all = start_system(&lab).await;
        create_tunnel(&lab.user(), "web", "laptop").await;
        lab.wait_ready("web", seconds(5)).await;
        for silence in [33, 47, 61] {
            sleep(seconds(silence)).await;
            lab.net.set_busy(seconds(silence));
            let took = until(INTERVAL, "the tunnel is not ready", || !lab.is_ready("web")).await;
            println!("silent: not ready after {took:?}");
            lab.wait_ready("web", 2 * seconds(silence)).await;
        }
    });
}

#[test]
fn a_tunnel_whose_deletion_arrives_late_gets_no_status() {
    on_box(1, |lab| async move {
        let late = Rule::new(Fault::Watch(WatchFault::Lagged(seconds(20))));
        let late = late.on(Match::watches().resource("httpproxies"));
        lab.cluster.faults("operator").add(late);
        let _all = start_system(&lab).await;
        create_tunnel(&lab.user(), "web", "laptop").await;
        lab.wait_ready("web", seconds(40)).await;
        sleep(seconds(60)).await;
        let before = status_writes(&lab).len();
        let proxies: Api<HttpProxy> = Api::namespaced(lab.user(), TENANT);
        let deleted = proxies.delete("web", &DeleteParams::default()).await;
        deleted.expect("the tunnel is deleted");
        sleep(seconds(120)).await;
        let told = status_writes(&lab);
        assert_eq!(told.len(), before, "{told:#?}");
        let claims = lab.cluster.server().list("aplomb.dev", "hostnameclaims");
        assert!(claims.is_empty(), "{claims:?}");
    });
}
