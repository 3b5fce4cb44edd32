//! The figures that docs/egress.md publishes: from a failure of the gateway until another node
//! serves, with available calls and with an exhausted rate limit.

use std::time::Duration;

use aplomb_fake_services::hcloud::{BackgroundClients, BucketState, Change};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::lab::{Lab, SECRET, on_box, seconds};
use crate::moves::{probing, wait_random};

const SEEDS: u64 = 20;

/// What happens to the gateway.
#[derive(Clone, Copy, Debug)]
enum Event {
    Killed,
    Cordoned,
    Deleted,
    NoCandidate,
}

impl Event {
    const ALL: [Self; 4] = [Self::Killed, Self::Cordoned, Self::Deleted, Self::NoCandidate];

    fn spec(self) -> Value {
        match self {
            Self::Killed => probing(),
            _ => json!({}),
        }
    }

    async fn apply(self, lab: &Lab) {
        match self {
            Self::Killed => lab.kill(0),
            Self::Cordoned => lab.nodes.cordon(0, true).await,
            Self::Deleted => lab.nodes.delete(0).await,
            Self::NoCandidate => lab.nodes.remove_candidate_label(0).await,
        }
    }
}

/// The bucket is empty, and other clients call three times a second for the one token that it
/// gains.
fn exhaust_budget(lab: &Lab) {
    let bucket = BucketState {
        name: SECRET.to_owned(),
        limit: None,
        remaining: Some(0),
        refill_per_second: None,
    };
    lab.change(Change {
        buckets: Some(vec![bucket]),
        ..Change::default()
    });
    lab.hetzner.noise(BackgroundClients::rate("others", 3.0)).unwrap();
}

async fn failover(lab: Lab, event: Event, starved: bool) -> Duration {
    let _replica = lab.start_settled(3, &event.spec()).await;
    if starved {
        exhaust_budget(&lab);
    }
    wait_random(&lab).await;
    let began = Instant::now();
    event.apply(&lab).await;
    lab.wait_serving(1, seconds(300)).await;
    began.elapsed()
}

/// Median and worst over the seeds.
fn failover_times(event: Event, starved: bool) -> (Duration, Duration) {
    let run = |seed| on_box(seed, move |lab| failover(lab, event, starved));
    let mut times: Vec<_> = (0..SEEDS).map(run).collect();
    times.sort_unstable();
    (times[times.len() / 2], times[times.len() - 1])
}

#[test]
fn a_failover_takes_what_the_documents_say() {
    println!("published: median and worst of {SEEDS} seeds, until another node serves");
    for event in Event::ALL {
        let (plain, starved) = (failover_times(event, false), failover_times(event, true));
        println!(
            "published: {event:?}: {:.1?}, {:.1?}; with 429: {:.1?}, {:.1?}",
            plain.0, plain.1, starved.0, starved.1
        );
        let grace = match event {
            Event::Killed => seconds(28),
            _ => Duration::ZERO,
        };
        assert!(plain.1 <= grace + seconds(2), "{event:?}: {plain:?}");
        assert!(starved.1 <= grace + seconds(120), "{event:?}: {starved:?}");
    }
}
