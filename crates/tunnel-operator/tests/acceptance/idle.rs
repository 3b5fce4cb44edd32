//! Promise: an idle tunnel causes only heartbeats, and at most ten writes from creation to deletion.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aplomb_api::tunnel::HttpProxy;
use aplomb_apiserver::storage::Change;
use kube::Api;
use kube::api::DeleteParams;
use tokio::time::{Instant, sleep};

use crate::agent::Agent;
use crate::gateway::Gateway;
use crate::lab::{Lab, TENANT, create_tunnel, on_box, seconds, until};
use crate::operator::Operator;

/// Maximum writes of a tunnel from creation to deletion.
const MAX_WRITES: usize = 10;

/// Gateways renew every five seconds, or a little sooner.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(4);

/// All components that carry traffic.
struct Running {
    operator: Operator,
    _gateways: Vec<Gateway>,
    _agent: Agent,
}

async fn start_system(lab: &Lab, gateways: u8) -> Running {
    let running = Running {
        operator: Operator::start(lab, "operator"),
        _gateways: (1..=gateways).map(|it| Gateway::start(lab, it)).collect(),
        _agent: Agent::start(lab, "laptop", seconds(30)),
    };
    lab.wait_online("laptop", seconds(10)).await;
    running
}

/// The writes from now on, except heartbeats.
fn record_writes(lab: &Lab) -> Arc<Mutex<Vec<String>>> {
    let all: Arc<Mutex<Vec<String>>> = Arc::default();
    let (told, beats) = (all.clone(), Mutex::new(BTreeMap::new()));
    lab.cluster.server().on_commit(Arc::new(move |change| {
        let name = change.key.name.clone();
        let resource = change.key.resource.resource.as_str();
        if resource == "events" || resource == "leases" {
            return;
        }
        if resource == "gatewayreplicas" {
            // A heartbeat also carries changes; only those that cannot wait for one are additional writes.
            let before = beats.lock().unwrap().insert(name, Instant::now());
            if before.is_none_or(|before| before.elapsed() > HEARTBEAT_INTERVAL) {
                return;
            }
        }
        told.lock().unwrap().push(describe_write(change));
    }));
    all
}

/// A short description of a write.
fn describe_write(change: &Change) -> String {
    let verb = match (&change.old, &change.new) {
        (None, _) => "create",
        (_, None) => "delete",
        (Some(old), Some(new)) if old.get("spec") == new.get("spec") => "status",
        _ => "update",
    };
    let resource = &change.key.resource.resource;
    format!("{verb} {resource}/{}", change.key.name)
}

#[test]
fn ten_idle_minutes_cost_nothing_but_heartbeats() {
    on_box(1, |lab| async move {
        let running = start_system(&lab, 2).await;
        for name in ["one", "two", "three"] {
            create_tunnel(&lab.user(), name, "laptop").await;
        }
        for name in ["one", "two", "three"] {
            lab.wait_ready(name, seconds(10)).await;
        }
        let written = record_writes(&lab);
        sleep(seconds(60)).await;
        written.lock().unwrap().clear();
        let (before, passes) = (lab.cluster.writes().len(), running.operator.passes("aplomb"));
        sleep(seconds(600)).await;
        let beats = lab.cluster.writes().len() - before;
        println!(
            "ten idle minutes with three tunnels: {beats} heartbeats, {} passes, {} other writes",
            running.operator.passes("aplomb") - passes,
            written.lock().unwrap().len(),
        );
        assert_eq!(*written.lock().unwrap(), Vec::<String>::new());
    });
}

#[test]
fn a_tunnel_costs_at_most_ten_writes_in_its_life() {
    on_box(1, |lab| async move {
        let _running = start_system(&lab, 1).await;
        let written = record_writes(&lab);
        sleep(seconds(30)).await;
        written.lock().unwrap().clear();
        create_tunnel(&lab.user(), "web", "laptop").await;
        let took = lab.wait_ready("web", seconds(10)).await;
        sleep(seconds(60)).await;
        let proxies: Api<HttpProxy> = Api::namespaced(lab.user(), TENANT);
        let deleted = proxies.delete("web", &DeleteParams::default()).await;
        deleted.expect("the tunnel is deleted");
        let gone = || lab.cluster.server().list("gateway.networking.k8s.io", "gateways");
        until(seconds(30), "its children are deleted", || gone().is_empty()).await;
        sleep(seconds(60)).await;
        let mut all = written.lock().unwrap().clone();
        // Writes of the user and the garbage collector do not count.
        all.retain(|it| !it.starts_with("delete") && it != "create httpproxies/web");
        let mut counted = BTreeMap::<String, usize>::new();
        for what in &all {
            *counted.entry(what.clone()).or_default() += 1;
        }
        println!("ready after {took:?}; {} writes: {counted:?}", all.len());
        assert!(all.len() <= MAX_WRITES, "{all:?}");
    });
}
