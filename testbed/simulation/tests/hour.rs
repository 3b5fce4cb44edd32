//! How much real time virtual time takes. Alone in its file, since worlds of one process take turns.

mod common;

use std::time::{Duration, Instant};

use aplomb_simulation::Simulation;

use common::operator::{Operator, Site, SiteSpec};
use common::scenario::install_crd;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use tokio::time::sleep;

/// An hour of a controller over a hundred objects; how many requests it took, and how long.
fn an_hour() -> (usize, Duration) {
    #[allow(clippy::disallowed_methods, reason = "what is measured is how long it really takes")]
    let begin = Instant::now();
    let run = Simulation::new(1)
        .interpose(aplomb_virtual_time::install)
        .run(|cluster| async move {
            install_crd(&cluster.client("admin")).await;
            let sites: Api<Site> = Api::namespaced(cluster.client("admin"), "default");
            for number in 0..100 {
                let name = Some(format!("site-{number}"));
                let metadata = ObjectMeta {
                    name,
                    ..ObjectMeta::default()
                };
                let spec = SiteSpec {
                    host: "www.example.com".to_owned(),
                    replicas: 1,
                };
                let site = Site {
                    metadata,
                    spec,
                    status: None,
                };
                sites.create(&PostParams::default(), &site).await.expect("created");
            }
            let _operator = cluster.start("operator", |process| async move {
                let operator = Operator {
                    client: process.client(),
                    resync: Duration::from_secs(300),
                };
                let (controller, _) = operator.controller();
                operator.run(controller).await;
            });
            sleep(Duration::from_secs(3600)).await;
            cluster.trace().count(|line| line.contains(" request "))
        });
    (run.value, begin.elapsed())
}

#[test]
fn an_hour_of_a_hundred_objects_takes_a_second() {
    // The best of three: what is measured is the simulation, not what else the machine is doing.
    let (requests, wall) = (0..3)
        .map(|_| an_hour())
        .min_by_key(|(_, wall)| *wall)
        .expect("there are three");
    println!("one virtual hour, 100 objects, {requests} requests: {wall:?}");
    assert!(requests > 100 * 3600 / 300, "the controller was at work");
    assert!(wall < Duration::from_secs(5), "{wall:?}");
}
