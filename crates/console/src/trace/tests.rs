//! A tunnel that was created while another writer wrote the same objects.

use serde_json::json;

use super::*;

fn tunnel() -> Value {
    json!({
        "apiVersion": "aplomb.dev/v1alpha1", "kind": "HTTPProxy",
        "metadata": {
            "name": "web", "namespace": "default", "uid": "u1", "generation": 1, "resourceVersion": "42",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [
                { "manager": "kubectl-create", "operation": "Update", "time": "2026-01-01T00:00:00Z",
                  "fieldsV1": { "f:spec": {} } },
                { "manager": "other", "operation": "Update", "time": "2026-01-01T00:00:01Z",
                  "fieldsV1": { "f:metadata": { "f:annotations": {} } } },
            ],
        },
        "spec": { "rules": [{ "backends": [{ "connector": { "name": "laptop" } }] }] },
        "status": {
            "timeline": {
                "created": "2026-01-01T00:00:00.395000Z", "accepted": "2026-01-01T00:00:00.400000Z",
                "childrenWritten": "2026-01-01T00:00:00.450000Z",
            },
            "conditions": [{
                "type": "Ready", "status": "False", "reason": "Proving", "message": "no proof yet",
                "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        },
    })
}

fn journal_line(at: &str, what: &str, detail: &Value) -> Value {
    json!({ "at": format!("2026-01-01T00:00:{at}Z"), "offsetSeconds": 0.0, "what": what, "detail": detail })
}

fn journal() -> Vec<Value> {
    let conflict = json!({ "class": "Conflict", "message": "the object has been modified" });
    let first = |who: &str| json!({ "object": "HTTPProxy default/web", "winner": who });
    let mut storm = journal_line("00.200", "pushback", &conflict);
    storm["times"] = json!(199);
    storm["until"] = json!("2026-01-01T00:00:00.390Z");
    let mut other = journal_line("00.210", "conflict", &first("other"));
    other["times"] = json!(199);
    vec![
        journal_line("00.100", "started", &Value::Null),
        storm,
        other,
        journal_line("00.410", "pushback", &conflict),
        journal_line("00.420", "conflict", &first("kubectl-edit")),
        journal_line(
            "00.500",
            "pushback",
            &json!({ "class": "Throttled", "message": "wait" }),
        ),
        journal_line("00.600", "anythingNew", &json!({})),
    ]
}

fn lease() -> Value {
    json!({ "kind": "Lease", "metadata": { "name": "laptop", "uid": "u3" },
        "spec": { "holderIdentity": "me", "renewTime": "2026-01-01T00:00:01Z" } })
}

fn evidence() -> TraceInputs {
    let relative = |of: &str, kind: &str, name: &str, object: Option<Value>| Relative {
        parent: of.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        role: "backend".to_owned(),
        exists: Some(object.is_some()),
        object,
        ..Relative::default()
    };
    let laptop = json!({ "kind": "Connector", "metadata": { "name": "laptop", "uid": "u2" },
        "status": { "conditions": [{ "type": "Online", "status": "True", "reason": "Renewed" }] } });
    TraceInputs {
        object: tunnel(),
        relatives: vec![
            relative("u1", "Connector", "laptop", Some(laptop)),
            relative("u2", "Lease", "laptop", Some(lease())),
            relative("u1", "Gateway", "web", None),
        ],
        journal: journal(),
        events: vec![json!({
            "reason": "ProofFailed", "note": "no response", "reportingController": "aplomb-tunnel",
            "eventTime": "2026-01-01T00:00:00.700000Z",
        })],
        gaps: Vec::new(),
    }
}

fn trace() -> ObjectTrace {
    let at = "2026-01-01T00:05:00Z".parse().expect("a time");
    ObjectTrace::from_inputs(&evidence(), at)
}

#[test]
fn conflicts_are_counted_in_their_gap() {
    let stages = trace().stages;
    let counts: Vec<(&str, u64)> = stages.iter().map(|it| (it.name.as_str(), it.conflicts)).collect();
    assert_eq!(
        counts,
        [
            ("Created", 0),
            ("Accepted", 199),
            ("Children written", 1),
            ("Programmed", 0),
            ("Proven", 0)
        ]
    );
    let winner = &stages[1].won_by[0];
    assert_eq!((winner.manager.as_deref(), winner.times), (Some("other"), 199));
    assert_eq!((stages[1].gap_ms, stages[2].after_ms), (Some(300), Some(350)));
    // Pushback on the way to a stage counts for it, even if it is not reached yet.
    assert_eq!(stages[3].pushback.get("Throttled"), Some(&1));
    assert!(stages[4].pushback.is_empty());
}

#[test]
fn the_text_is_the_table_one_would_make_of_an_audit_log() {
    let text = trace().to_text();
    let table = "\
STAGE              AT                         GAP      AFTER    CONFLICTS   WON BY                                     OTHER PUSHBACK
Created            2026-01-01T00:00:00.100Z   -        0 ms     0           -                                          -
Accepted           2026-01-01T00:00:00.400Z   300 ms   300 ms   199         other x199 on HTTPProxy default/web        -
Children written   2026-01-01T00:00:00.450Z   50 ms    350 ms   1           kubectl-edit x1 on HTTPProxy default/web   -
Programmed         -                          -        -        0           -                                          Throttled x1
Proven             -                          -        -        0           -                                          -
";
    assert!(text.contains(table), "{text}");
    let tree = "\
HTTPProxy/web         Ready=False      Proving   5m      5m
├─ Connector/laptop   Online=True      Renewed   -       -     backend
│  └─ Lease/laptop    -                -         -       -     backend, held by me, renewed 2026-01-01T00:00:01Z
└─ Gateway/web        does not exist   -         -       -     backend
";
    assert!(text.contains(tree), "{text}");
}

#[test]
fn the_timeline_has_actors_and_sources() {
    let trace = trace();
    let said = |who: &str| {
        let mut of = trace.timeline.iter().filter(|it| it.who == who);
        of.next().map(|it| (it.what.as_str(), it.from, it.times))
    };
    assert_eq!(
        said("kubectl-create"),
        Some(("last wrote spec", MomentSource::ManagedFields, 1))
    );
    let was_first = "wrote HTTPProxy default/web first";
    assert_eq!(said("other"), Some((was_first, MomentSource::Journal, 199)));
    assert_eq!(
        said("aplomb-tunnel"),
        Some(("ProofFailed: no response", MomentSource::Event, 1))
    );
    assert!(trace.timeline.is_sorted_by_key(|moment| moment.at));
}

#[test]
fn a_trace_survives_its_json() {
    let text = serde_json::to_string(&trace()).expect("JSON");
    assert_eq!(serde_json::from_str::<ObjectTrace>(&text).expect("a trace"), trace());
}

#[test]
fn every_relative_has_its_query() {
    let looks = relative_queries(&tunnel());
    let kinds: Vec<&str> = looks.iter().map(|look| look.kind).collect();
    assert_eq!(
        kinds,
        ["Gateway", "HTTPRoute", "EndpointSlice", "HostnameClaim", "Connector"]
    );
    let claim = json!({ "spec": { "claimant": { "uid": "u1" } } });
    assert!(looks[3].filter.matches(&claim) && !looks[3].filter.matches(&json!({})));
    let owned = json!({ "metadata": { "ownerReferences": [{ "uid": "u1" }] } });
    assert!(looks[0].filter.matches(&owned));
}

#[test]
fn a_claim_with_its_claimant_ends_the_tree() {
    let claim = json!({ "kind": "HostnameClaim", "metadata": { "name": "app.example.com", "uid": "u9" } });
    let relative = |of: &str, object: Value| Relative {
        parent: of.to_owned(),
        exists: Some(true),
        object: Some(object),
        ..Relative::default()
    };
    let evidence = TraceInputs {
        object: tunnel(),
        relatives: vec![relative("u1", claim), relative("u9", tunnel())],
        ..TraceInputs::default()
    };
    let tree = ObjectTrace::from_inputs(&evidence, Timestamp::UNIX_EPOCH).tree;
    assert_eq!(tree.children.len(), 1);
    assert!(tree.children[0].children.is_empty());
}

#[test]
fn a_move_has_every_stage() {
    let object = json!({ "kind": "StableEgress", "metadata": { "name": "web" }, "status": { "lastMove": {
        "from": "a", "to": "b", "cause": "NodeUnhealthy", "detected": "2026-01-01T00:00:00.000000Z",
        "decided": "2026-01-01T00:00:10.000000Z", "ended": "2026-01-01T00:00:11.500000Z",
        "stages": { "decide": "10s", "accept": "500ms", "assign": "1s" },
    } } });
    let evidence = TraceInputs {
        object,
        ..TraceInputs::default()
    };
    let stages = ObjectTrace::from_inputs(&evidence, Timestamp::UNIX_EPOCH).stages;
    let gaps: Vec<Option<i64>> = stages.iter().map(|stage| stage.gap_ms).collect();
    assert_eq!(gaps, [None, Some(10_000), Some(500), Some(1_000), None, Some(0)]);
}
