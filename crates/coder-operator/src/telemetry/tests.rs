//! The output of a scrape after various events.

use std::time::Duration;

use aplomb::ObjectKey;
use prometheus_client::encoding::text::encode;

use super::*;
use crate::client::CoderEndpoint;

const SERVER: &str = "coder.example.com";

fn samples(coder: &CoderMetrics, metric: &str) -> Vec<String> {
    let mut registry = Registry::default();
    coder.register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).expect("writing to a string");
    let lines = text.lines().filter(|line| line.starts_with(metric));
    lines.map(str::to_owned).collect()
}

fn object(name: &str) -> ObjectRef {
    ObjectRef {
        kind: "CoderProvisioner".into(),
        key: ObjectKey::new(Some("team"), name),
    }
}

fn record_object(coder: &CoderMetrics, object: &ObjectRef, ready: bool) {
    coder.emit(ObjectDecided {
        server: None,
        object,
        ready,
        reason: "AllConnected",
        throttled: false,
        daemons: Some((1, 2)),
        rotating: None,
        deleting: None,
    });
}

#[test]
fn a_refusal_is_counted_by_endpoint_and_was_zero_before() {
    let coder = CoderMetrics::default();
    for status in [Some(201), Some(429), None] {
        coder.emit(CallCompleted {
            server: SERVER,
            endpoint: CoderEndpoint::CreateKey,
            status,
            duration: Duration::from_millis(30),
        });
    }
    let limited = samples(&coder, "aplomb_coder_rate_limited_total");
    assert_eq!(limited.len(), CoderEndpoint::ALL.len());
    assert!(limited.contains(
        &r#"aplomb_coder_rate_limited_total{server="coder.example.com",endpoint="create_key"} 1"#.to_owned()
    ));
    let requests = samples(&coder, "aplomb_coder_requests_total").join("\n");
    for code in ["201", "429", "no_answer"] {
        assert!(requests.contains(&format!(r#"code="{code}"}} 1"#)), "{requests}");
    }
}

#[test]
fn an_object_that_is_gone_takes_its_series_along() {
    let coder = CoderMetrics::default();
    let (red, blue) = (object("red"), object("blue"));
    record_object(&coder, &red, true);
    record_object(&coder, &blue, false);
    let line = r#"aplomb_coder_ready{kind="CoderProvisioner",namespace="team",name="red"} 1.0"#;
    assert_eq!(samples(&coder, "aplomb_coder_ready{").len(), 2);
    assert!(samples(&coder, "aplomb_coder_ready{").contains(&line.to_owned()));
    coder.emit(ObjectRemoved { object: &red });
    assert_eq!(samples(&coder, "aplomb_coder_ready{").len(), 1);
    assert_eq!(samples(&coder, "aplomb_coder_daemons_wanted{").len(), 1);
}

#[test]
fn a_standby_shows_no_gauges_and_keeps_its_counters() {
    let coder = CoderMetrics::default();
    let fence = Fence::always_open();
    coder.set_fence(&fence);
    record_object(&coder, &object("red"), true);
    coder.emit(LimitReported {
        server: SERVER,
        endpoint: CoderEndpoint::ListKeys,
        limit: 512,
        remaining: 500,
    });
    coder.emit(BypassRefused { server: SERVER });
    assert_eq!(samples(&coder, "aplomb_coder_budget_remaining{").len(), 1);
    fence.revoke();
    assert!(samples(&coder, "aplomb_coder_budget_remaining{").is_empty());
    assert!(samples(&coder, "aplomb_coder_ready{").is_empty());
    assert_eq!(samples(&coder, "aplomb_coder_bypass_refused_total{").len(), 1);
}

#[test]
fn rotations_and_orphans_are_counted() {
    let coder = CoderMetrics::default();
    let red = object("red");
    coder.emit(KeyRotated {
        object: &red,
        reason: "tags",
    });
    coder.emit(RotationStageEnded {
        object: &red,
        stage: RotationStage::Rollout,
        duration: Duration::from_secs(30),
    });
    coder.emit(KeyOrphaned {
        object: &red,
        server: SERVER,
        name: "red-2",
    });
    let rotated = samples(&coder, "aplomb_coder_rotations_total").join("\n");
    assert!(rotated.ends_with(r#"reason="tags"} 1"#), "{rotated}");
    let orphaned = samples(&coder, "aplomb_coder_orphaned_total").join("\n");
    assert!(!orphaned.contains("red-2"), "{orphaned}");
    let stages = samples(&coder, "aplomb_coder_rotation_stage_seconds_count");
    assert_eq!(stages.len(), 1);
}
