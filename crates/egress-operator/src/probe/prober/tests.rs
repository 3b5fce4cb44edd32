//! The prober in virtual time, with scripted nodes.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::time::{advance, sleep};

use super::*;

/// Responses of nodes, by address: after a delay, or never.
#[derive(Clone, Default)]
struct Fake {
    slow: Arc<Mutex<BTreeMap<IpAddr, Option<Duration>>>>,
    dial_count: Arc<AtomicU32>,
}

impl Fake {
    fn set_answer(&self, node: u8, after: Option<Duration>) {
        self.slow.lock().insert(address(node), after);
    }

    fn dial_count(&self) -> u32 {
        self.dial_count.load(Ordering::Relaxed)
    }
}

impl NodeProbe for Fake {
    fn dial<'a>(&'a self, addresses: &'a [IpAddr], _: u16, _: Duration) -> BoxFuture<'a, Result<(), String>> {
        self.dial_count.fetch_add(1, Ordering::Relaxed);
        let after = self.slow.lock().get(&addresses[0]).copied();
        Box::pin(async move {
            match after {
                None => Err("refused".to_owned()),
                Some(Some(after)) => {
                    sleep(after).await;
                    Ok(())
                }
                Some(None) => std::future::pending().await,
            }
        })
    }
}

fn address(node: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, node).into()
}

fn nodes<const N: usize>(numbers: [u8; N]) -> Vec<(String, Vec<IpAddr>)> {
    let node = |number| (format!("node-{number}"), vec![address(number)]);
    numbers.map(node).into()
}

fn settings() -> egress::ProbeSpec {
    egress::ProbeSpec {
        interval: aplomb_api::DurationString::from_secs(5),
        timeout: aplomb_api::DurationString::from_secs(2),
        ..egress::ProbeSpec::default()
    }
}

fn key() -> ObjectKey {
    ObjectKey::new(None, "office")
}

async fn probe_round<const N: usize>(prober: &NodeProber, numbers: [u8; N]) -> BTreeMap<String, u32> {
    let now = Instant::now();
    prober.probe_due(&key(), &nodes(numbers), &settings(), now).await
}

#[tokio::test(start_paused = true)]
async fn one_silent_node_does_not_delay_the_others_beyond_the_timeout() {
    let fake = Fake::default();
    fake.set_answer(1, None);
    for quick in 2..=100 {
        fake.set_answer(quick, Some(Duration::from_millis(1500)));
    }
    let prober = NodeProber::new(Arc::new(fake));
    let all: [u8; 100] = std::array::from_fn(|index| index as u8 + 1);
    let began = Instant::now();
    let failures = probe_round(&prober, all).await;
    assert_eq!(began.elapsed(), Duration::from_secs(2));
    assert_eq!(failures["node-1"], 1);
    assert!((2..=100).all(|quick| failures[&format!("node-{quick}")] == 0));
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_events_is_one_failure() {
    let fake = Fake::default();
    let prober = NodeProber::new(Arc::new(fake.clone()));
    for _ in 0..20 {
        assert_eq!(probe_round(&prober, [1]).await["node-1"], 1);
        advance(Duration::from_millis(200)).await;
    }
    assert_eq!(fake.dial_count(), 1, "in 4 s of a 5 s interval");
    advance(Duration::from_secs(1)).await;
    assert_eq!(probe_round(&prober, [1]).await["node-1"], 2);
    assert_eq!(fake.dial_count(), 2);
}

#[tokio::test(start_paused = true)]
async fn concurrent_callers_share_one_probe() {
    let fake = Fake::default();
    fake.set_answer(1, Some(Duration::from_secs(1)));
    let prober = NodeProber::new(Arc::new(fake.clone()));
    let late = async {
        sleep(Duration::from_millis(500)).await;
        probe_round(&prober, [1]).await
    };
    let (first, second) = tokio::join!(probe_round(&prober, [1]), late);
    assert_eq!(first["node-1"], 0);
    assert_eq!(first, second);
    assert_eq!(fake.dial_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn one_answer_ends_the_row_of_failures() {
    let fake = Fake::default();
    let prober = NodeProber::new(Arc::new(fake.clone()));
    for failures in 1..=2 {
        assert_eq!(probe_round(&prober, [1]).await["node-1"], failures);
        advance(Duration::from_secs(5)).await;
    }
    fake.set_answer(1, Some(Duration::ZERO));
    assert_eq!(probe_round(&prober, [1]).await["node-1"], 0);
    advance(Duration::from_secs(5)).await;
    fake.set_answer(1, None);
    assert_eq!(probe_round(&prober, [1]).await["node-1"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_removed_node_starts_over() {
    let prober = NodeProber::new(Arc::new(Fake::default()));
    probe_round(&prober, [1]).await;
    prober.remove(&key());
    assert_eq!(prober.next_due(&key(), &settings(), Instant::now()), None);
    assert_eq!(probe_round(&prober, [1]).await["node-1"], 1);
}

#[tokio::test(start_paused = true)]
async fn an_unused_node_is_removed_in_time() {
    let prober = NodeProber::new(Arc::new(Fake::default()));
    probe_round(&prober, [1, 2]).await;
    for _ in 0..RETAINED_INTERVALS {
        advance(Duration::from_secs(5)).await;
        probe_round(&prober, [2]).await;
    }
    assert_eq!(prober.records.lock().by_key[&key()].len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_was_left_alone_is_made_again() {
    let fake = Fake::default();
    fake.set_answer(1, Some(Duration::from_secs(1)));
    let prober = NodeProber::new(Arc::new(fake.clone()));
    let half = tokio::time::timeout(Duration::from_millis(500), probe_round(&prober, [1])).await;
    assert!(half.is_err(), "canceled by its caller");
    advance(Duration::from_secs(60)).await;
    assert_eq!(probe_round(&prober, [1]).await["node-1"], 0);
    assert_eq!(fake.dial_count(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_next_probe_is_due_an_interval_after_the_last_began() {
    let fake = Fake::default();
    fake.set_answer(1, None);
    let prober = NodeProber::new(Arc::new(fake));
    probe_round(&prober, [1]).await;
    let left = prober.next_due(&key(), &settings(), Instant::now());
    assert_eq!(left, Some(Duration::from_secs(3)), "2 s passed during the probe");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_left_is_never_due() {
    let prober = NodeProber::new(Arc::new(Fake::default()));
    probe_round(&prober, [1, 2]).await;
    advance(Duration::from_secs(5)).await;
    probe_round(&prober, [2]).await;
    let due = || prober.next_due(&key(), &settings(), Instant::now());
    assert_eq!(due(), Some(Duration::from_secs(5)));
    probe_round(&prober, []).await;
    assert_eq!(due(), None);
}

#[tokio::test(start_paused = true)]
async fn every_probe_is_reported_with_its_reason() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let book = told.clone();
    let prober = NodeProber::new(Arc::new(Fake::default())).on_probe(move |key, node, outcome| {
        let line = (key.to_string(), node.to_owned(), outcome.clone());
        book.lock().push(line);
    });
    probe_round(&prober, [1]).await;
    probe_round(&prober, [1]).await;
    let refused = ProbeOutcome {
        failures: 1,
        before: None,
        reason: Some("refused".to_owned()),
    };
    let once = ("office".to_owned(), "node-1".to_owned(), refused);
    assert_eq!(*told.lock(), [once]);
}
