//! A baseline for comparison: clients that read the floating IP twice for every event of a node,
//! counted from the simulator's request log.

use std::time::Duration;

use aplomb::{InformerSet, MetaRef, Scope, Tasks, Telemetry, View, ViewMeta};
use k8s_openapi::api::core::v1::Node;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::sleep;
use tower::ServiceExt;

use crate::lab::{Lab, floating_ip, seconds};
use crate::nodes;
use crate::quiet::{BEAT, lab_options};

#[derive(serde::Deserialize)]
struct Name {
    metadata: ViewMeta,
}

impl View for Name {
    type Kind = Node;
    fn meta(&self) -> MetaRef<'_> {
        self.metadata.as_ref()
    }
}

/// Reads twice for each event of a node for `time`. Returns the number of events, reads and
/// refusals.
async fn reads_per_event(lab: Lab, count: usize, time: Duration) -> (u64, usize, usize) {
    for number in 0..count {
        lab.nodes.create(&nodes::node(number, None)).await;
    }
    lab.floating_ip(0, "web", |_| {});
    let hub = InformerSet::new(lab.cluster.plain_client("peer"), Telemetry::default());
    let (sender, mut events) = unbounded_channel();
    let watch = hub.informer::<Name>(Scope::default());
    // The receiver is gone at the end of the simulation.
    watch.listen(move |_| sender.send(()).unwrap_or_default());
    let _tasks = hub.start(&Tasks::on_runtime());
    sleep(2 * BEAT).await;
    while events.try_recv().is_ok() {}
    let (service, secret) = (lab.hetzner.service(), lab.token(0));
    let seen = std::cell::Cell::new(0_u64);
    let peer = async {
        while events.recv().await.is_some() {
            seen.set(seen.get() + 1);
            for _ in 0..2 {
                let path = format!("https://api.example.com/v1/floating_ips/{}", floating_ip(0));
                let request = http::Request::get(path).header("authorization", format!("Bearer {secret}"));
                let request = request.body(bytes::Bytes::new()).unwrap();
                drop(service.clone().oneshot(request).await.unwrap());
            }
        }
    };
    tokio::select! { biased; () = sleep(time) => {} () = peer => {} }
    let requests = lab.hetzner.requests();
    let refused = requests.iter().filter(|it| it.status == Some(429)).count();
    (seen.get(), requests.len(), refused)
}

fn cost_per_hour(what: &str, count: usize, time: Duration) -> f64 {
    let (events, reads, refused) = lab_options(true).run(move |lab| reads_per_event(lab, count, time));
    let hourly = |number: f64| number * 3600.0 / time.as_secs_f64();
    let (events, reads) = (hourly(events as f64), hourly(reads as f64));
    let (what, refused) = (format!("{what} ({time:?})"), hourly(refused as f64));
    println!("{what:<44} {events:>12.0} {reads:>12.0} {refused:>10.0} of them refused");
    reads
}

/// Prints both baselines: with `count` nodes, and with an event every 2.5 s. Returns their reads
/// per hour.
pub fn print_cost(count: usize, time: Duration) -> (f64, f64) {
    let busy = cost_per_hour("two reads per node event", count, time);
    let story = cost_per_hour("the same, an event every 2.5 s", 4, seconds(3600));
    let events = count as f64 * 3600.0 / BEAT.as_secs_f64();
    assert!((busy / events / 2.0 - 1.0).abs() < 0.05, "{busy} reads an hour");
    assert!((story / 2_880.0 - 1.0).abs() < 0.05, "{story} reads an hour");
    (busy, story)
}
