//! What a status says of fixed inputs.

use std::time::Duration;

use aplomb::Class;
use aplomb::journal::Entry;
use serde_json::json;

use super::*;
use crate::fixture;
use crate::light::Light;

#[test]
fn json_and_back_is_the_same_value() {
    let status = fixture::status();
    let text = serde_json::to_string(&status).expect("JSON");
    let back: Status = serde_json::from_str(&text).expect("a status");
    assert_eq!(back, status);
}

#[test]
fn nothing_secret_and_nothing_of_a_spec_is_in_it() {
    let text = serde_json::to_string(&fixture::status()).expect("JSON");
    for word in [
        fixture::SECRET,
        "coder-token",
        "tokenSecretRef",
        "annotations",
    ] {
        assert!(!text.contains(word), "{word} is in the status");
    }
}

#[test]
fn a_tunnel_tells_its_stages_and_who_won() {
    let status = fixture::status();
    let shop = status.tunnels.iter().find(|it| it.name.name == "shop");
    let shop = shop.expect("the tunnel");
    assert_eq!(shop.light, Light::Green);
    let stages: Vec<(&str, i64)> = shop
        .timeline
        .stages
        .iter()
        .map(|it| (&*it.name, ms(it.offset)))
        .collect();
    let want = [
        ("created", 0),
        ("accepted", 18),
        ("childrenWritten", 61),
        ("programmed", 148),
        ("proven", 412),
    ];
    assert_eq!(stages, want);
    let marks = &shop.timeline.marks;
    let winners: Vec<Option<&str>> = marks.iter().map(|it| it.winner.as_deref()).collect();
    assert_eq!(
        winners,
        [
            Some("kubectl-edit"),
            Some("cert-manager"),
            Some("kubectl-edit"),
            None
        ]
    );
    assert_eq!(marks[3].class, "Throttled");
    assert_eq!(ms(marks[3].offset), 230);
}

#[allow(clippy::cast_possible_truncation, reason = "some hundred milliseconds")]
fn ms(seconds: f64) -> i64 {
    (seconds * 1000.0).round() as i64
}

#[test]
fn a_budget_that_engines_share_is_told_once_with_its_reserve() {
    let status = fixture::status();
    let targets: Vec<&str> = status.budgets.iter().map(|it| &*it.target).collect();
    assert_eq!(targets, ["apiserver", "hetzner"]);
    let shared = &status.budgets[0];
    assert_eq!(shared.operator, "");
    assert!((shared.available - 75.0).abs() < 1e-9 && (shared.reserve - 20.0).abs() < 1e-9);
}

#[test]
fn a_move_is_told_stage_by_stage() {
    let status = fixture::status();
    let egress = &status.egresses[0];
    let moved = egress.last_move.as_ref().expect("a move");
    let stages: Vec<(&str, i64)> = moved
        .stages
        .iter()
        .map(|it| (&*it.name, ms(it.offset)))
        .collect();
    let want = [
        ("decided", 21_000),
        ("accepted", 21_320),
        ("assigned", 22_720),
        ("labelled", 22_900),
    ];
    assert_eq!(stages, want);
    let names: Vec<(&str, bool)> = egress
        .nodes
        .iter()
        .map(|it| (&*it.name, it.active))
        .collect();
    assert_eq!(names, [("gateway-b", true), ("gateway-a", false)]);
}

#[test]
fn findings_are_what_is_not_proven_and_worst_first() {
    let status = fixture::status();
    let found: Vec<(&str, &str, &str)> = status
        .findings
        .iter()
        .map(|it| (&*it.kind, &*it.name.name, &*it.reason))
        .collect();
    let want = [
        ("HTTPProxy", "demo", "ConnectorOffline"),
        ("Budget", "hetzner", "Closed"),
        ("HTTPProxy", "blog", "Pending"),
    ];
    assert_eq!(found, want);
}

#[test]
fn an_operator_that_is_not_well_is_found() {
    let mut engines = fixture::engines();
    engines[0].1.watches[0].synced = false;
    let status = Status::of(Inputs {
        objects: &Objects::default(),
        engines: &engines,
        journal: &|_| Vec::new(),
        at: fixture::at(),
    });
    assert_eq!(status.findings[0].kind, "Operator");
    assert!(status.findings[0].message.contains("not synced"));
    assert!(status.tables.is_empty(), "nobody watches any kind");
}

#[test]
fn a_proof_of_an_older_spec_is_a_finding() {
    let mut newer = fixture::proven("api");
    newer["metadata"]["generation"] = json!(2);
    let mut objects = Objects::default();
    objects.put("HTTPProxy", vec![newer]);
    let inputs = Inputs {
        objects: &objects,
        engines: &[],
        journal: &|_| Vec::new(),
        at: fixture::at(),
    };
    let status = Status::of(inputs);
    assert_eq!(status.findings[0].reason, "Outdated");
    assert_eq!(status.tunnels[0].light, Light::Grey);
}

#[test]
fn a_storm_that_was_folded_is_counted_once_and_told_apart_by_who_won() {
    let object = |winner: &str| Entry::Conflict {
        object: fixture::name("shop").id("HTTPProxy"),
        winner: Some(winner.to_owned()),
    };
    let lost = Entry::Pushback {
        class: Class::Conflict,
        message: "the object has been modified".to_owned(),
    };
    let line = |times: u64, entry: Entry| Line {
        at: fixture::at(),
        offset: Duration::ZERO,
        times,
        until: None,
        entry,
    };
    let lines = [
        line(200, lost),
        line(150, object("rival")),
        line(49, object("kubectl-edit")),
    ];
    let marks = marks(&lines, fixture::at());
    let told: Vec<(u64, Option<&str>)> = marks
        .iter()
        .map(|it| (it.times, it.winner.as_deref()))
        .collect();
    assert_eq!(
        told,
        [(1, None), (49, Some("kubectl-edit")), (150, Some("rival"))]
    );
}

#[test]
fn an_axis_begins_when_the_object_was_made_however_late_its_status() {
    let made = |created: &str| {
        let mut tunnel = fixture::proven("late");
        tunnel["metadata"]["creationTimestamp"] = created.into();
        let timeline = tunnel::timeline(&tunnel, &[]);
        timeline.began.expect("a beginning").to_string()
    };
    assert_eq!(made("2026-11-15T11:57:58Z"), "2026-11-15T11:57:58.1Z");
    assert_eq!(made("2026-11-15T11:57:57Z"), "2026-11-15T11:57:58Z");
    assert_eq!(made("2026-11-15T11:57:40Z"), "2026-11-15T11:57:41Z");
}
