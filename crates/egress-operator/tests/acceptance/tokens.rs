//! Guarantee: no part of an API token appears in a log line, an Event, a metric, a status or an
//! error, even if the provider's responses contain it.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use aplomb_fake_services::hcloud::{BucketState, Change, Fault};
use serde_json::json;
use tokio::time::sleep;
use tower::ServiceExt;
use tracing_subscriber::fmt::MakeWriter;

use crate::lab::{Lab, SECRET, TOKEN, on_box, seconds};
use crate::operator::Replica;

/// Every log line of a run.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;
    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Lines {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

/// The part of the token that `text` leaks, if any: eight consecutive characters.
fn find_leak(text: &str) -> Option<&'static str> {
    let parts = (0..=TOKEN.len() - 8).map(|at| &TOKEN[at..at + 8]);
    parts.into_iter().find(|part| text.contains(part))
}

/// Empties the bucket and keeps it empty.
fn drain_bucket(lab: &Lab) {
    lab.change(Change {
        buckets: Some(vec![BucketState {
            name: SECRET.to_owned(),
            limit: None,
            remaining: Some(0),
            refill_per_second: Some(0.0),
        }]),
        ..Change::default()
    });
}

/// The provider's own text of a refusal.
async fn refusal_text(lab: &Lab) -> String {
    let request = http::Request::get("https://api.example.com/v1/floating_ips/100");
    let request = request.header("authorization", format!("Bearer {TOKEN}"));
    let request = request.body(bytes::Bytes::new()).unwrap();
    let answer = lab.hetzner.service().oneshot(request).await.unwrap();
    assert_eq!(answer.status(), 429);
    String::from_utf8_lossy(answer.body()).into_owned()
}

/// Everything that can be read after a run, except the Secret itself.
fn all_output(lab: &Lab, replica: &Replica, lines: &Lines) -> Vec<(&'static str, String)> {
    let state = lab.cluster.state();
    let objects = state.iter().filter(|(name, _)| !name.starts_with("secrets"));
    let objects: Vec<String> = objects.map(|(name, object)| format!("{name} {object}")).collect();
    vec![
        ("logs", lines.text()),
        ("metrics", replica.metrics()),
        ("events", format!("{:?}", lab.events())),
        ("objects", objects.join("\n")),
        ("trace", lab.cluster.trace().lines().join("\n")),
    ]
}

/// A run with every kind of refusal; returns everything written about it.
async fn output_under_refusals(lab: Lab) -> Vec<(&'static str, String)> {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(lines.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let replica = lab.start_settled(3, &json!({})).await;
    let echo = format!("invalid token {TOKEN} in Bearer {}", &TOKEN[..32]);
    for status in [401, 403, 422, 423, 500, 503] {
        let body = json!({ "error": { "code": "unknown_error", "message": echo } });
        lab.hetzner.fault(Fault {
            status: Some(status),
            body: Some(body),
            ..Fault::default()
        });
        lab.nodes.cordon(0, status % 2 == 1).await;
        sleep(seconds(70)).await;
        lab.hetzner.clear_faults(None);
        sleep(seconds(40)).await;
    }
    drain_bucket(&lab);
    let said = refusal_text(&lab).await;
    assert!(
        find_leak(&said).is_some(),
        "the simulator names the token as Hetzner does: {said}"
    );
    lab.nodes.cordon(0, false).await;
    lab.nodes.cordon(1, true).await;
    sleep(seconds(600)).await;
    all_output(&lab, &replica, &lines)
}

#[test]
fn no_part_of_a_token_is_written_anywhere() {
    let written = on_box(1, output_under_refusals);
    for (what, text) in &written {
        assert_eq!(find_leak(text), None, "in {what}");
    }
    let (lines, size) = (written[0].1.lines().count(), written[0].1.len());
    let refusals = written[0].1.matches("429").count();
    println!("{lines} log lines, {size} bytes, under refusals: no 8 characters of the token in a row");
    assert!(lines > 100, "the log is not empty");
    assert!(refusals > 0, "the log contains refusals");
}

#[test]
fn a_leak_would_be_seen() {
    assert_eq!(find_leak(&format!("a {} b", &TOKEN[20..28])), Some(&TOKEN[20..28]));
    assert_eq!(find_leak(&TOKEN[..7]), None);
}
