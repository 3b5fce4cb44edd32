//! The overview of fixed inputs.

use std::time::Duration;

use aplomb::ErrorClass;
use aplomb::journal::JournalEntry;
use serde_json::{Value, json};

use super::*;
use crate::fixture;
use crate::health::HealthColor;

#[test]
fn json_round_trips() {
    let status = fixture::status();
    let text = serde_json::to_string(&status).expect("JSON");
    let back: Overview = serde_json::from_str(&text).expect("a status");
    assert_eq!(back, status);
}

#[test]
fn nothing_secret_and_nothing_of_a_spec_is_in_it() {
    let text = serde_json::to_string(&fixture::status()).expect("JSON");
    for word in [fixture::SECRET, "coder-token", "tokenSecretRef", "annotations"] {
        assert!(!text.contains(word), "{word} is in the status");
    }
}

#[test]
fn a_tunnel_has_its_stages_and_conflict_winners() {
    let status = fixture::status();
    let shop = status.tunnels.iter().find(|it| it.name.name == "shop");
    let shop = shop.expect("the tunnel");
    assert_eq!(shop.light, HealthColor::Green);
    let stages: Vec<(&str, i64)> = shop
        .timeline
        .stages
        .iter()
        .map(|it| (&*it.name, to_millis(it.offset)))
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
        [Some("kubectl-edit"), Some("cert-manager"), Some("kubectl-edit"), None]
    );
    assert_eq!(marks[3].class, "Throttled");
    assert_eq!(to_millis(marks[3].offset), 230);
}

#[allow(clippy::cast_possible_truncation, reason = "some hundred milliseconds")]
fn to_millis(seconds: f64) -> i64 {
    (seconds * 1000.0).round() as i64
}

#[test]
fn a_shared_budget_is_listed_once_with_its_reserve() {
    let status = fixture::status();
    let targets: Vec<&str> = status.budgets.iter().map(|it| &*it.target).collect();
    assert_eq!(targets, ["apiserver", "hetzner"]);
    let shared = &status.budgets[0];
    assert_eq!(shared.operator, "");
    assert!((shared.available - 75.0).abs() < 1e-9 && (shared.reserve - 20.0).abs() < 1e-9);
}

#[test]
fn a_move_has_every_stage() {
    let status = fixture::status();
    let egress = &status.egresses[0];
    let moved = egress.last_move.as_ref().expect("a move");
    let stages: Vec<(&str, i64)> = moved
        .stages
        .iter()
        .map(|it| (&*it.name, to_millis(it.offset)))
        .collect();
    let want = [
        ("decided", 21_000),
        ("accepted", 21_320),
        ("assigned", 22_720),
        ("labelled", 22_900),
    ];
    assert_eq!(stages, want);
    let names: Vec<(&str, bool)> = egress.nodes.iter().map(|it| (&*it.name, it.active)).collect();
    assert_eq!(names, [("gateway-b", true), ("gateway-a", false)]);
}

#[test]
fn findings_are_sorted_by_severity() {
    let status = fixture::status();
    let found: Vec<(&str, &str, &str)> = status
        .findings
        .iter()
        .map(|it| (&*it.kind, &*it.name.name, &*it.reason))
        .collect();
    let want = [
        ("HTTPProxy", "blog", "Pending"),
        ("Budget", "hetzner", "Closed"),
        ("HTTPProxy", "demo", "ConnectorOffline"),
    ];
    assert_eq!(found, want);
}

/// The findings about one object of a kind: severity and reason.
fn findings_for(kind: &str, object: Value) -> Vec<(FindingSeverity, String)> {
    let mut objects = ObjectMap::default();
    objects.insert(kind, vec![object]);
    let status = Overview::from_inputs(OverviewInputs {
        objects: &objects,
        engines: &[],
        journal: &|_| Vec::new(),
        at: fixture::fixture_time(),
    });
    let findings = status.findings.into_iter();
    findings.map(|it| (it.severity, it.reason)).collect()
}

/// An object of generation 1 with these conditions, unchanged for two minutes.
fn egress_with(conditions: &[(&str, &str, &str)]) -> Value {
    let conditions = conditions
        .iter()
        .map(|(kind, status, reason)| fixture::condition(kind, status, reason, "so"));
    let conditions: Vec<Value> = conditions.collect();
    json!({ "metadata": { "name": "web", "generation": 1 },
        "status": { "observedGeneration": 1, "conditions": conditions } })
}

const READY: (&str, &str, &str) = ("Ready", "True", "Serving");

#[test]
fn an_address_that_serves_without_a_standby_or_a_budget_is_a_warning() {
    let egress = |conditions: &[_]| findings_for("StableEgress", egress_with(conditions));
    let warning = |reason: &str| vec![(FindingSeverity::Warning, reason.to_owned())];
    assert_eq!(egress(&[READY, ("Redundant", "True", "StandbyReady")]), []);
    for (kind, reason) in [
        ("Redundant", "NoStandby"),
        ("LabelsConsistent", "Inconsistent"),
        ("ProviderReachable", "Throttled"),
        ("Fenced", "TermNotWritten"),
    ] {
        assert_eq!(egress(&[READY, (kind, "False", reason)]), warning(reason));
    }
    let mut spent = egress_with(&[READY]);
    for (level, want) in [
        ("Plenty", vec![]),
        ("Low", vec![]),
        ("Reserve", warning("BudgetReserve")),
    ] {
        spent["status"]["budget"] = json!({ "limit": 3600, "remaining": 0, "level": level });
        assert_eq!(findings_for("StableEgress", spent.clone()), want, "{level}");
    }
}

#[test]
fn an_address_without_a_candidate_is_one_error() {
    let nowhere = (FindingSeverity::Error, "NoCandidate".to_owned());
    let redundant = ("Redundant", "False", "NoCandidate");
    let serving = findings_for("StableEgress", egress_with(&[READY, redundant]));
    assert_eq!(serving, std::slice::from_ref(&nowhere));
    let down = findings_for(
        "StableEgress",
        egress_with(&[("Ready", "False", "NoCandidate"), redundant]),
    );
    assert_eq!(down, [nowhere]);
}

#[test]
fn a_hold_is_a_notice_until_it_is_overdue() {
    let mut held = egress_with(&[READY, ("Held", "True", "Held")]);
    let word = |severity| vec![(severity, "Held".to_owned())];
    assert_eq!(
        findings_for("StableEgress", held.clone()),
        word(FindingSeverity::Notice)
    );
    held["status"]["conditions"][1]["lastTransitionTime"] = "2026-11-14T11:59:00Z".into();
    assert_eq!(findings_for("StableEgress", held), word(FindingSeverity::Warning));
}

#[test]
fn an_agent_that_was_stopped_is_a_notice_and_one_that_is_lost_a_warning() {
    let offline = ("Ready", "False", "ConnectorOffline");
    for (reason, severity) in [
        ("Released", FindingSeverity::Notice),
        ("LeaseExpired", FindingSeverity::Warning),
        ("SessionLost", FindingSeverity::Warning),
    ] {
        let tunnel = egress_with(&[offline, ("ConnectorOnline", "False", reason)]);
        let want = [(severity, "ConnectorOffline".to_owned())];
        assert_eq!(findings_for("HTTPProxy", tunnel), want, "{reason}");
        let connector = egress_with(&[("Online", "False", reason)]);
        assert_eq!(findings_for("Connector", connector), [(severity, reason.to_owned())]);
    }
    let released = Overview {
        findings: vec![Finding {
            severity: FindingSeverity::Notice,
            ..Finding::default()
        }],
        ..Overview::default()
    };
    assert!(released.is_healthy());
}

#[test]
fn a_connector_that_is_online_and_not_ready_is_a_warning() {
    let online = ("Online", "True", "LeaseRenewed");
    let well = egress_with(&[online, ("Ready", "True", "Online")]);
    assert_eq!(findings_for("Connector", well), []);
    let refused = egress_with(&[online, ("Ready", "False", "InvalidRelay")]);
    let want = [(FindingSeverity::Warning, "InvalidRelay".to_owned())];
    assert_eq!(findings_for("Connector", refused), want);
}

#[test]
fn an_api_server_refusal_is_a_warning_regardless_of_ready() {
    let refused = ("Reconciling", "True", "Forbidden");
    let want = (FindingSeverity::Warning, "Forbidden".to_owned());
    let serving = findings_for("HTTPProxy", egress_with(&[READY, refused]));
    assert_eq!(serving, std::slice::from_ref(&want));
    let pending = ("Ready", "Unknown", "Progressing");
    assert!(findings_for("HTTPProxy", egress_with(&[pending, refused])).contains(&want));
    let busy = ("Reconciling", "True", "Pending");
    assert_eq!(findings_for("HTTPProxy", egress_with(&[READY, busy])), []);
}

#[test]
fn a_pending_object_is_an_error_once_its_alert_would_fire() {
    let way = |reason: &str, since: &str| {
        let mut tunnel = egress_with(&[("Ready", "False", reason), ("Reconciling", "True", "Pending")]);
        tunnel["status"]["conditions"][0]["lastTransitionTime"] = since.into();
        findings_for("HTTPProxy", tunnel)[0].0
    };
    assert_eq!(way("Pending", "2026-11-15T11:58:30Z"), FindingSeverity::Warning);
    assert_eq!(way("Pending", "2026-11-15T11:58:00Z"), FindingSeverity::Error);
    for reason in ["OriginUnreachable", "CertificateMissing", "HostnameInUse", "Invalid"] {
        assert_eq!(way(reason, "2026-11-15T10:00:00Z"), FindingSeverity::Warning);
    }
}

#[test]
fn a_server_of_coder_that_refuses_is_a_warning_and_lost_daemons_are_an_error() {
    let one = |kind: &str, reason: &str| findings_for(kind, egress_with(&[("Ready", "False", reason)]))[0].0;
    assert_eq!(one("CoderProvisioner", "TokenRejected"), FindingSeverity::Warning);
    assert_eq!(one("CoderProvisioner", "NoneConnected"), FindingSeverity::Error);
    assert_eq!(one("CoderWorkspaceProxy", "Unhealthy"), FindingSeverity::Error);
    // As spec.replicas requests.
    let none = one("CoderWorkspaceProxy", "ScaledToZero");
    assert_eq!(none, FindingSeverity::Notice);
    let mut limited = egress_with(&[READY]);
    limited["status"]["rateLimited"] = json!({ "since": "2026-11-15T11:40:00Z" });
    assert_eq!(findings_for("CoderProvisioner", limited.clone()), []);
    limited["status"]["rateLimited"]["since"] = "2026-11-15T11:20:00Z".into();
    let warning = (FindingSeverity::Warning, "RateLimited".to_owned());
    assert_eq!(findings_for("CoderProvisioner", limited), [warning]);
}

#[test]
fn a_budget_of_an_hour_is_found_when_little_is_left() {
    let low = |rate: f64, capacity: f64, available: f64| {
        let status = Overview {
            budgets: vec![LimiterRow {
                rate,
                capacity: Some(capacity),
                available,
                reserve: 30.0,
                ..LimiterRow::default()
            }],
            ..Overview::default()
        };
        !find_all(&status, &ObjectMap::default()).is_empty()
    };
    assert!(low(1.0, 3600.0, 360.0) && low(1.0, 3600.0, 0.0));
    assert!(!low(1.0, 3600.0, 361.0));
    assert!(!low(20.0, 100.0, 0.0), "a limit that refills in seconds is not low");
}

#[test]
fn an_unhealthy_operator_has_a_finding() {
    let mut engines = fixture::engines();
    engines[0].1.watches[0].synced = false;
    let status = Overview::from_inputs(OverviewInputs {
        objects: &ObjectMap::default(),
        engines: &engines,
        journal: &|_| Vec::new(),
        at: fixture::fixture_time(),
    });
    assert_eq!(status.findings[0].kind, "Operator");
    assert!(status.findings[0].message.contains("not synced"));
    assert!(status.tables.is_empty(), "no kind is watched");
}

#[test]
fn a_proof_of_an_older_spec_is_a_finding() {
    let mut newer = fixture::proven("api");
    newer["metadata"]["generation"] = json!(2);
    let mut objects = ObjectMap::default();
    objects.insert("HTTPProxy", vec![newer]);
    let inputs = OverviewInputs {
        objects: &objects,
        engines: &[],
        journal: &|_| Vec::new(),
        at: fixture::fixture_time(),
    };
    let status = Overview::from_inputs(inputs);
    assert_eq!(status.findings[0].reason, "Outdated");
    assert_eq!(status.tunnels[0].light, HealthColor::Grey);
}

#[test]
fn an_agent_that_exposes_too_little_is_a_warning_with_a_remedy() {
    let message = "agent \"laptop\" does not expose 127.0.0.1:9; restart it with --expose 127.0.0.1:9";
    // Whether or not it was ever proven.
    for proven in [true, false] {
        let mut hidden = fixture::proven("api");
        let ready = hidden["status"]["conditions"].as_array_mut().into_iter().flatten();
        for ready in ready.filter(|it| it["type"] == "Ready") {
            ready["status"] = json!("False");
            (ready["reason"], ready["message"]) = (json!("OriginNotExposed"), json!(message));
        }
        if !proven {
            hidden["status"]["timeline"]["proven"] = json!(null);
        }
        let mut objects = ObjectMap::default();
        objects.insert("HTTPProxy", vec![hidden]);
        let status = Overview::from_inputs(OverviewInputs {
            objects: &objects,
            engines: &[],
            journal: &|_| Vec::new(),
            at: fixture::fixture_time(),
        });
        let [found] = &status.findings[..] else {
            panic!("{:?}", status.findings);
        };
        assert_eq!(found.severity, FindingSeverity::Warning);
        assert_eq!((&*found.reason, &*found.message), ("OriginNotExposed", message));
    }
}

#[test]
fn folded_conflicts_are_counted_once_per_winner() {
    let object = |winner: &str| JournalEntry::Conflict {
        object: fixture::object_name("shop").object_ref("HTTPProxy"),
        winner: Some(winner.to_owned()),
    };
    let lost = JournalEntry::Pushback {
        class: ErrorClass::Conflict,
        message: "the object has been modified".to_owned(),
    };
    let line = |times: u64, entry: JournalEntry| JournalLine {
        at: fixture::fixture_time(),
        offset: Duration::ZERO,
        times,
        until: None,
        entry,
    };
    let lines = [
        line(200, lost),
        line(150, object("other")),
        line(49, object("kubectl-edit")),
    ];
    let marks = pushback_marks(&lines, fixture::fixture_time());
    let told: Vec<(u64, Option<&str>)> = marks.iter().map(|it| (it.times, it.winner.as_deref())).collect();
    assert_eq!(told, [(1, None), (49, Some("kubectl-edit")), (150, Some("other"))]);
}

#[test]
fn the_axis_starts_at_creation_despite_a_late_status() {
    let made = |created: &str| {
        let mut tunnel = fixture::proven("late");
        tunnel["metadata"]["creationTimestamp"] = created.into();
        let timeline = tunnel::timeline_row(&tunnel, &[]);
        timeline.began.expect("a beginning").to_string()
    };
    assert_eq!(made("2026-11-15T11:57:58Z"), "2026-11-15T11:57:58.1Z");
    assert_eq!(made("2026-11-15T11:57:57Z"), "2026-11-15T11:57:58Z");
    assert_eq!(made("2026-11-15T11:57:40Z"), "2026-11-15T11:57:41Z");
}

const RULES: [&str; 3] = [
    include_str!("../../../../deploy/tunnel/monitoring/prometheusrule.yaml"),
    include_str!("../../../../deploy/egress/monitoring/prometheusrule.yaml"),
    include_str!("../../../../deploy/coder/monitoring/prometheusrule.yaml"),
];

/// Name, severity and expression of every alert that is shipped.
fn alerts() -> Vec<(String, String, String)> {
    let of = |rule: &str| {
        let (name, rest) = rule.split_once('\n').expect("a name");
        let (expr, rest) = rest.split_once("severity: ").expect("a severity");
        let severity = rest.lines().next().unwrap_or_default();
        (name.to_owned(), severity.to_owned(), expr.to_owned())
    };
    let all = RULES.iter().flat_map(|text| text.split("- alert: ").skip(1));
    all.map(of).collect()
}

#[test]
fn the_page_about_severities_has_every_alert() {
    let page = include_str!("../../../../docs/console.md");
    let alerts = alerts();
    assert!(alerts.len() > 30, "{}", alerts.len());
    for (name, severity, _) in alerts {
        let row = page.lines().find(|line| {
            let mut cells = line.split('|').skip(1);
            let names = cells.next().unwrap_or_default();
            names.split(',').any(|it| it.trim() == name)
        });
        let row = row.unwrap_or_else(|| panic!("{name} is not in docs/console.md"));
        assert!(row.contains(&severity), "{name}: {row}");
    }
}

#[test]
fn reasons_for_which_no_alert_or_a_warning_fires_are_no_errors() {
    for (name, _, expr) in alerts() {
        let (kind, matcher) = match &*name {
            "TunnelNotProven" => ("HTTPProxy", "reason!~\""),
            "CoderKeyNotReady" | "CoderTokenRejected" | "CoderServerUnreachable" => ("CoderProvisioner", "reason=~\""),
            _ => continue,
        };
        let (_, reasons) = expr.split_once(matcher).expect("it names reasons");
        let (reasons, _) = reasons.split_once('"').expect("they end");
        for reason in reasons.split('|') {
            // A pattern covers the reasons with this prefix.
            let reason = reason.replace("OperatorTokenSecret.*", "OperatorTokenSecretRefMissing");
            let object = egress_with(&[("Ready", "False", &reason.replace(".*", "Whatever"))]);
            assert_eq!(
                findings_for(kind, object)[0].0,
                FindingSeverity::Warning,
                "{name}: {reason}"
            );
        }
    }
}
