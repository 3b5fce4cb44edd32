//! Clients that draw from the same budget.

use std::time::Duration;

use aplomb_fake_services::hcloud::{BackgroundClients, Entry, Shape};
use serde_json::{Value, json};
use tokio::time::advance;

use super::{ASSIGN, call, hetzner, put};

fn spread(requests: &[Entry]) -> Vec<String> {
    requests.iter().map(|entry| entry.time.to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn noise_comes_at_its_rate_and_is_the_same_for_the_same_seed() {
    let mut runs = Vec::new();
    for looks in [1, 3600] {
        let hetzner = hetzner(|_| {});
        hetzner
            .noise(BackgroundClients::rate("others", 0.9))
            .expect("it is right");
        for _ in 0..looks {
            advance(Duration::from_secs(3600 / looks)).await;
            assert!(hetzner.remaining("default") <= 3600);
        }
        runs.push(hetzner.requests());
    }
    let count = runs[0].len();
    assert!((2900..3600).contains(&count), "{count}");
    // Whether anybody looked meanwhile makes no difference.
    assert_eq!(spread(&runs[0]), spread(&runs[1]));
    assert!(runs[0].is_sorted_by_key(|entry| entry.time));
}

#[tokio::test(start_paused = true)]
async fn a_holder_keeps_the_bucket_within_its_tokens_of_empty() {
    let hetzner = hetzner(|_| {});
    hetzner
        .noise(BackgroundClients::hold_at("others", 5))
        .expect("it is right");
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..600 {
        advance(Duration::from_millis(700)).await;
        seen.insert(hetzner.remaining("default"));
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    hetzner.stop_noise(Some("others"));
    advance(Duration::from_secs(100)).await;
    assert!(hetzner.remaining("default") >= 100);
}

#[tokio::test(start_paused = true)]
async fn a_holder_of_nothing_leaves_nothing() {
    let hetzner = hetzner(|_| {});
    hetzner
        .noise(BackgroundClients::hold_at("others", 0))
        .expect("it is right");
    for _ in 0..100 {
        advance(Duration::from_millis(970)).await;
        assert_eq!(call(&hetzner, "GET", "/v1/servers", Value::Null).await.0, 429);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_object_of_cluster_api_rests_for_five_minutes() {
    let hetzner = hetzner(|_| {});
    put(
        &hetzner,
        json!({"buckets": [
            {"name": "default", "remaining": 0, "refill_per_second": 0.000_001},
        ]}),
    );
    let mut noise = BackgroundClients::shape("caph", Shape::Caph);
    noise.objects = Some(1);
    hetzner.noise(noise).expect("it is right");
    advance(Duration::from_secs(900)).await;
    let requests = hetzner.requests();
    assert!(requests.iter().all(|entry| entry.status == Some(429)));
    let gaps = requests
        .windows(2)
        .map(|pair| pair[1].time.duration_since(pair[0].time));
    let rests: Vec<_> = gaps.filter(|gap| gap.as_secs() > 60).collect();
    assert!(!rests.is_empty());
    assert!(rests.iter().all(|gap| gap.as_secs() == 300), "{rests:?}");
    // Six tries before each rest.
    assert!(requests.len() >= 12, "{}", requests.len());
}

#[tokio::test(start_paused = true)]
async fn the_shapes_make_the_calls_they_are_known_for() {
    let cases = [
        (
            Shape::Caph,
            vec!["GET /v1/actions", "GET /v1/servers/1", "GET /v1/servers/2"],
        ),
        (Shape::Ccm, vec!["GET /v1/servers"]),
    ];
    for (shape, calls) in cases {
        let hetzner = hetzner(|_| {});
        hetzner
            .noise(BackgroundClients::shape("other", shape))
            .expect("it is right");
        advance(Duration::from_secs(3600)).await;
        let requests = hetzner.requests();
        let made = requests.iter().map(|entry| format!("{} {}", entry.method, entry.path));
        let made: std::collections::BTreeSet<String> = made.collect();
        assert_eq!(made.into_iter().collect::<Vec<_>>(), calls);
    }
}

#[tokio::test(start_paused = true)]
async fn the_volumes_of_csi_lock_servers() {
    let hetzner = hetzner(|config| {
        config.action_time = Duration::from_secs(5)..=Duration::from_secs(5);
    });
    let mut noise = BackgroundClients::shape("csi", Shape::Csi);
    noise.rate = Some(0.2);
    hetzner.noise(noise).expect("it is right");
    let mut statuses = std::collections::BTreeSet::new();
    for _ in 0..60 {
        advance(Duration::from_secs(7)).await;
        statuses.insert(call(&hetzner, "POST", ASSIGN, json!({"server": 2})).await.0);
    }
    assert_eq!(statuses.into_iter().collect::<Vec<_>>(), [201, 423]);
    let requests = hetzner.requests();
    let polls = requests.iter().filter(|e| e.client == "csi" && e.path == "/v1/actions");
    assert!(polls.count() > 0);
}

#[test]
fn a_noise_client_must_say_what_it_is() {
    let nameless = BackgroundClients::rate("", 1.0);
    let shapeless = BackgroundClients {
        name: "x".to_owned(),
        ..BackgroundClients::default()
    };
    for noise in [
        nameless,
        shapeless,
        BackgroundClients::rate("x", 0.0),
        BackgroundClients::rate("x", f64::NAN),
    ] {
        assert!(noise.mistake().is_some(), "{noise:?}");
    }
}
