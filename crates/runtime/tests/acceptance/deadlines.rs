//! No API call exceeds its deadline; a black-holed one costs only its deadline.

use std::time::Duration;

use aplomb::call_context::CallContext;
use aplomb::ratelimit::api;
use aplomb::{Error, ErrorClass};
use aplomb_simulation::faults::{Fault, Latency, Match, Rule};
use aplomb_simulation::{Cluster, Simulation};
use bytes::Bytes;
use futures::future::{BoxFuture, join_all};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};
use tower::{BoxError, service_fn};

use crate::gated::{Gated, requests};

const DEADLINE: Duration = aplomb::client::REQUEST_DEADLINE;
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

fn world() -> Simulation {
    Simulation::new(4).interpose(aplomb_virtual_time::install)
}

fn black_hole() -> Rule {
    Rule::new(Fault::Latency(Latency::Fixed(24 * HOUR)))
}

fn maps(client: &Client) -> Api<ConfigMap> {
    Api::default_namespaced(client.clone())
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

/// Every kind of call a controller makes.
fn every_call(maps: &Api<ConfigMap>) -> Vec<BoxFuture<'_, kube::Result<()>>> {
    let patch = || Patch::Merge(json!({"data": {"a": "b"}}));
    vec![
        maps.get("a").map(|done| done.map(drop)).boxed(),
        async { maps.list(&ListParams::default()).await.map(drop) }.boxed(),
        async { maps.create(&PostParams::default(), &map("a")).await.map(drop) }.boxed(),
        async { maps.replace("a", &PostParams::default(), &map("a")).await.map(drop) }.boxed(),
        async move { maps.patch("a", &PatchParams::default(), &patch()).await.map(drop) }.boxed(),
        async move {
            maps.patch_status("a", &PatchParams::default(), &patch())
                .await
                .map(drop)
        }
        .boxed(),
        async { maps.delete("a", &DeleteParams::default()).await.map(drop) }.boxed(),
        async { maps.watch(&WatchParams::default(), "0").await.map(drop) }.boxed(),
    ]
}

#[test]
fn a_call_into_a_black_hole_costs_its_deadline() {
    world().run(|cluster| async move {
        cluster.faults("operator").add(black_hole());
        let gated = Gated::new(cluster.client("operator"));
        let maps = maps(&gated.client);
        for call in every_call(&maps) {
            let begin = Instant::now();
            let error = Error::from(call.await.unwrap_err());
            assert_eq!(
                (error.class(), begin.elapsed()),
                (ErrorClass::Unavailable, DEADLINE),
                "{error}"
            );
            assert_eq!(gated.in_flight(), 0, "{error}");
        }
        let counted = gated
            .telemetry
            .budget
            .deadline_exceeded("apiserver", "get", "configmaps");
        assert_eq!(counted, 1);

        let without = self::maps(&cluster.client("operator"));
        let waits = timeout(HOUR, without.get("a")).await;
        assert!(waits.is_err(), "without the gate the call never returns");
    });
}

/// Calls to `fine`, a map, pass; calls to `hole` do not.
async fn client_with_black_hole(cluster: &Cluster) -> Gated {
    let created = maps(&cluster.client("user"))
        .create(&PostParams::default(), &map("fine"))
        .await;
    created.expect("the user's requests meet no faults");
    cluster
        .faults("operator")
        .add(black_hole().on(Match::any().name("hole")));
    Gated::new(cluster.client("operator"))
}

#[test]
fn black_holes_that_leave_a_slot_delay_no_other_call() {
    world().run(|cluster| async move {
        let gated = client_with_black_hole(&cluster).await;
        let (maps, begin) = (maps(&gated.client), Instant::now());
        let holes = join_all((0..50).map(|_| maps.get("hole")));
        let (holes, ()) = tokio::join!(holes, async {
            sleep(SECOND).await;
            assert_eq!(gated.in_flight(), 50);
            maps.get("fine").await.unwrap();
            assert_eq!(begin.elapsed(), SECOND);
        });
        assert!(holes.iter().all(Result::is_err));
        assert_eq!((begin.elapsed(), gated.in_flight()), (DEADLINE, 0));
    });
}

/// 500 calls into a black hole for 100 slots: work waits until the first of them reach their
/// deadline; lanes with their own slots do not wait.
#[test]
fn black_holes_that_take_every_slot_hold_work_up_until_their_deadline() {
    world().run(|cluster| async move {
        let gated = client_with_black_hole(&cluster).await;
        let (maps, begin) = (maps(&gated.client), Instant::now());
        let holes = join_all((0..500).map(|_| maps.get("hole")));
        let work = async {
            sleep(SECOND).await;
            maps.get("fine").await.unwrap();
            begin.elapsed()
        };
        let lease = async {
            sleep(SECOND).await;
            assert_lease_renewal(&gated.client, &cluster).await;
            begin.elapsed()
        };
        let (holes, work, lease) = tokio::join!(holes, work, lease);
        assert!(holes.iter().all(Result::is_err));
        assert_eq!(lease, SECOND, "the lease has its own slots");
        assert_eq!(work, DEADLINE, "work has no slots of its own, and has not failed");
        assert_eq!((begin.elapsed(), gated.in_flight()), (DEADLINE, 0));
        maps.get("fine").await.unwrap();
        assert_eq!(begin.elapsed(), DEADLINE, "all calls have ended");
    });
}

async fn assert_lease_renewal(client: &Client, cluster: &Cluster) {
    let leases: Api<Lease> = Api::default_namespaced(client.clone());
    let lease = serde_json::from_value(json!({"metadata": {"name": "operator"}})).unwrap();
    let scope = CallContext {
        deadline: cluster.trace().instant(HOUR),
        lane: api::LEASE,
    };
    scope
        .run(async { leases.create(&PostParams::default(), &lease).await })
        .await
        .unwrap();
}

#[test]
fn a_run_gives_its_calls_no_longer_than_it_has() {
    world().run(|cluster| async move {
        cluster.faults("operator").add(black_hole());
        let maps = maps(&Gated::new(cluster.client("operator")).client);
        let begin = Instant::now();
        let scope = CallContext {
            deadline: begin + Duration::from_secs(3),
            lane: api::WORK,
        };
        let both = scope.run(async { (maps.get("a").await, maps.get("b").await) });
        let (first, second) = both.await;
        assert!(first.is_err() && second.is_err());
        assert_eq!(begin.elapsed(), Duration::from_secs(3));
    });
}

#[test]
fn calls_are_not_retried_implicitly() {
    let run = world().run(|cluster| async move {
        for identity in ["gated", "kube"] {
            cluster.faults(identity).add(Rule::new(Fault::ServiceUnavailable));
        }
        let begin = Instant::now();
        let gated = Gated::new(cluster.client("gated"));
        let error = Error::from(maps(&gated.client).get("a").await.unwrap_err());
        assert_eq!(
            (error.class(), begin.elapsed()),
            (ErrorClass::Unavailable, Duration::ZERO)
        );
        maps(&cluster.client("kube")).get("a").await.unwrap_err();
        begin.elapsed()
    });
    assert_eq!(requests(&run.trace, "gated").len(), 1);
    assert_eq!(
        requests(&run.trace, "kube").len(),
        16,
        "the same client without the gate"
    );
    assert!(
        run.value > Duration::from_secs(60),
        "hidden in one call: {:?}",
        run.value
    );
}

/// A server that responds at once with an endless body, a byte a second.
fn trickling() -> Client {
    let service = service_fn(|_: Request<kube::client::Body>| async {
        let bytes = stream::iter(0..).then(|_: u64| async {
            sleep(Duration::from_secs(1)).await;
            Ok::<_, BoxError>(Frame::data(Bytes::from_static(b" ")))
        });
        Ok::<_, BoxError>(Response::new(StreamBody::new(bytes)))
    });
    Client::new(service, "default")
}

#[test]
fn a_body_is_part_of_the_call() {
    world().run(|_| async move {
        let gated = Gated::new(trickling());
        let begin = Instant::now();
        let error = Error::from(maps(&gated.client).get("a").await.unwrap_err());
        assert_eq!(
            (error.class(), begin.elapsed()),
            (ErrorClass::Unavailable, DEADLINE),
            "{error}"
        );
        assert_eq!(gated.in_flight(), 0);
        let without = maps(&trickling());
        assert!(timeout(HOUR, without.get("a")).await.is_err());
    });
}

#[test]
fn a_watch_may_be_silent_for_longer_than_any_deadline() {
    world().run(|cluster| async move {
        let gated = Gated::new(cluster.client("operator"));
        let watch = maps(&gated.client).watch(&WatchParams::default(), "0").await.unwrap();
        assert_eq!(gated.in_flight(), 0, "the body holds no slot");
        let mut events = watch.boxed();
        let created = async {
            sleep(4 * DEADLINE).await;
            maps(&cluster.client("user"))
                .create(&PostParams::default(), &map("late"))
                .await
                .unwrap();
        };
        let (event, ()) = tokio::join!(events.try_next(), created);
        assert!(event.unwrap().is_some());
    });
}
