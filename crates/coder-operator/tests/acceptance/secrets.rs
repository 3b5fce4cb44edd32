//! Guarantee: no part of a token, a key's plaintext or a proxy's token appears in a log line, an
//! Event, a metric, a status or an error, even if the server's responses contain it.

use std::collections::BTreeSet;

use aplomb_fake_services::coderd::Role;
use serde_json::json;
use tokio::time::sleep;

use crate::lab::{Around, Lab, SECRET, TEAM, minutes, seconds};
use crate::log_lines::Lines;
use crate::operator::Replica;
use crate::site;

/// This many consecutive characters of a secret count as a part of it.
const PART: usize = 8;
/// Every class of refusal.
const STATUSES: [u16; 14] = [400, 401, 403, 404, 409, 412, 422, 428, 429, 500, 502, 503, 504, 302];

/// The part of a secret that `text` leaks, if any. Texts are long, so it first compares the first
/// two letters.
fn find_leak(secrets: &BTreeSet<String>, text: &str) -> Option<String> {
    let parts: BTreeSet<&[u8]> = secrets
        .iter()
        .map(|secret| secret.rsplit(['-', ':']).next().unwrap_or(secret))
        .flat_map(|secret| secret.as_bytes().windows(PART))
        .collect();
    let pair = |part: &[u8]| usize::from(part[0]) << 8 | usize::from(part[1]);
    let mut begins = vec![false; 1 << 16];
    parts.iter().for_each(|part| begins[pair(part)] = true);
    let mut places = text.as_bytes().windows(PART);
    let found = places.find(|place| begins[pair(place)] && parts.contains(place));
    found.map(|part| String::from_utf8_lossy(part).into_owned())
}

/// All secrets known so far. The first half of a token is its ID, which coderd shows to all users,
/// and so is that of a proxy's token.
fn secrets(lab: &Lab, known: &mut BTreeSet<String>) {
    known.extend([site::TOKEN, site::NEXT_TOKEN, site::OTHER_TOKEN].map(str::to_owned));
    for name in ["team-provisioner-key", "near-proxy-token"] {
        let values = ["key", "token"].into_iter();
        known.extend(values.filter_map(|key| lab.secret(name, key)));
    }
}

/// Everything that can be read after a run, except the Secrets themselves.
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

/// A run in which every call is refused in every way for a while, by a server that repeats what it
/// received.
async fn output_under_refusals(lab: Lab) -> (BTreeSet<String>, Vec<(&'static str, String)>) {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_writer(lines.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let mut known = BTreeSet::new();
    let replica = lab.start_settled(&json!({})).await;
    lab.proxy("near", &json!({})).await;
    sleep(minutes(2)).await;
    for (number, status) in STATUSES.into_iter().enumerate() {
        secrets(&lab, &mut known);
        let echo = format!("refused: {}", known.iter().cloned().collect::<Vec<_>>().join(" "));
        lab.coderd.fault(&json!({
            "path": "/api/v2/", "status": status,
            "body": { "message": echo, "detail": echo, "validations": [{ "field": echo, "detail": echo }] },
            "headers": { "X-Echo": echo, "Location": format!("https://{}.example.com/", site::TOKEN) },
        }));
        rotate(&lab, number).await;
        sleep(minutes(1)).await;
        lab.coderd.clear_faults();
        // After 401 another token is tried.
        let token = [site::TOKEN, site::NEXT_TOKEN][number % 2];
        lab.token(SECRET, token).await;
        sleep(minutes(11)).await;
    }
    for body in ["<html>", "{\"key\":", "[{\"id\":1}]"] {
        secrets(&lab, &mut known);
        let echo = format!("{body}{}", known.iter().cloned().collect::<Vec<_>>().join(" "));
        lab.coderd
            .fault(&json!({ "path": "/api/v2/", "status": 200, "body": echo, "times": 6 }));
        rotate(&lab, body.len() + 100).await;
        sleep(minutes(11)).await;
    }
    secrets(&lab, &mut known);
    lab.delete(TEAM).await;
    sleep(seconds(600)).await;
    (known, all_output(&lab, &replica, &lines))
}

async fn rotate(lab: &Lab, number: usize) {
    let rotate = json!({ "metadata": { "annotations": { "coder.aplomb.dev/rotate": number.to_string() } } });
    lab.edit(TEAM, &rotate).await;
    lab.edit_proxy("near", &rotate).await;
}

#[test]
fn no_part_of_a_secret_is_written_anywhere() {
    let around = Around::with_seed(1).with_server(|it| it.role = Role::Owner);
    let (known, written) = around.run(output_under_refusals);
    for (what, text) in &written {
        let found = find_leak(&known, text);
        let line = found.and_then(|part| text.lines().find(|line| line.contains(&part)));
        assert_eq!(line, None, "in {what}");
    }
    let (lines, size) = (written[0].1.lines().count(), written[0].1.len());
    println!(
        "{lines} log lines, {size} bytes, under {} kinds of refusals that echo secrets: no {PART} characters of {} secrets in a row",
        STATUSES.len() + 3,
        known.len()
    );
    assert!(lines > 100, "the log is not empty");
    assert!(known.len() > 8, "keys were created: {}", known.len());
}

#[test]
fn a_leak_would_be_seen() {
    let known = BTreeSet::from([site::TOKEN.to_owned()]);
    let part = &site::TOKEN[12..12 + PART];
    let found = find_leak(&known, &format!("a {part} b"));
    assert_eq!(found.as_deref(), Some(part));
    assert_eq!(find_leak(&known, &site::TOKEN[..PART - 1]), None);
}
