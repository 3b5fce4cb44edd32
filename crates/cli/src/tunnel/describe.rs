//! One tunnel as text: state, reason, duration of each stage, and connectors. Pure.

use std::fmt::Write;

use aplomb_api::tunnel::{Connector, HttpProxy, TunnelTimeline, conditions};
use aplomb_console::table::{age_at as age, align_columns};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime};
use kube::ResourceExt;

/// Whether it is proven to work for its current spec.
pub(super) fn is_ready(proxy: &HttpProxy) -> bool {
    let conditions = proxy.status.as_ref().map(|status| &status.conditions);
    conditions.into_iter().flatten().any(|condition| {
        condition.type_ == conditions::READY
            && condition.status == "True"
            && condition.observed_generation >= proxy.metadata.generation
    })
}

pub(super) fn describe_tunnel(proxy: &HttpProxy, connectors: &[(String, Option<Connector>)], now: Timestamp) -> String {
    let status = proxy.status.clone().unwrap_or_default();
    let mut rows = vec![
        table_row("Tunnel:", &proxy.name_any()),
        table_row("Namespace:", &proxy.namespace().unwrap_or_default()),
        table_row("Ready:", if is_ready(proxy) { "yes" } else { "no" }),
    ];
    if let Some(hostname) = &status.hostname {
        let scheme = proxy.spec.tls.as_ref().map_or("http", |_| "https");
        rows.push(table_row("URL:", &format!("{scheme}://{hostname}")));
    }
    if !status.addresses.is_empty() {
        rows.push(table_row("Gateways:", &status.addresses.join(", ")));
    }
    for (name, connector) in connectors {
        rows.push(table_row("Connector:", &agent_text(name, connector.as_ref(), now)));
    }
    let mut text = align_columns(&rows);
    if !status.conditions.is_empty() {
        text.push('\n');
        text.push_str(&align_columns(&condition_rows(&status.conditions, now)));
    }
    if let Some(timeline) = &status.timeline {
        text.push('\n');
        text.push_str(&align_columns(&stage_rows(timeline)));
    }
    text
}

fn table_row(name: &str, value: &str) -> Vec<String> {
    vec![name.to_owned(), value.to_owned()]
}

fn agent_text(name: &str, connector: Option<&Connector>, now: Timestamp) -> String {
    let Some(connector) = connector else {
        return format!("{name} (does not exist)");
    };
    let status = connector.status.clone().unwrap_or_default();
    let online = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == conditions::ONLINE);
    let mut text = match online {
        Some(online) if online.status == "True" => format!("{name}, online"),
        Some(online) => format!("{name}, offline ({})", online.reason),
        None => format!("{name}, not seen yet"),
    };
    if let Some(since) = &status.offline_since {
        let _ = write!(text, " for {}", age(since.0, now));
    }
    if let Some(details) = &status.connection_details {
        if let Some(version) = &details.agent_version {
            let _ = write!(text, ", agent {version}");
        }
        if let Some(device) = &details.device {
            let _ = write!(text, " on {device}");
        }
    }
    text
}

fn condition_rows(conditions: &[Condition], now: Timestamp) -> Vec<Vec<String>> {
    let head = ["CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for condition in conditions {
        rows.push(vec![
            condition.type_.clone(),
            condition.status.clone(),
            condition.reason.clone(),
            age(condition.last_transition_time.0, now),
            condition.message.clone(),
        ]);
    }
    rows
}

/// Each stage with its own duration and the time since the first.
fn stage_rows(timeline: &TunnelTimeline) -> Vec<Vec<String>> {
    let head = ["STAGE", "TOOK", "AFTER", "AT"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let stages = [
        ("Created", &timeline.created),
        ("Accepted", &timeline.accepted),
        ("Children written", &timeline.children_written),
        ("Programmed", &timeline.programmed),
        ("Proven", &timeline.proven),
    ];
    let first = timeline.created.as_ref().map(|time| time.0);
    let mut last = first;
    for (name, at) in stages {
        let Some(MicroTime(at)) = at else {
            rows.push(vec![name.to_owned(), "-".to_owned(), "-".to_owned(), "-".to_owned()]);
            continue;
        };
        let since = |then: Option<Timestamp>| format_millis(then.unwrap_or(*at), *at);
        rows.push(vec![name.to_owned(), since(last), since(first), at.to_string()]);
        last = Some(*at);
    }
    rows
}

fn format_millis(from: Timestamp, to: Timestamp) -> String {
    format!("{} ms", to.as_millisecond() - from.as_millisecond())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn proxy() -> HttpProxy {
        let object = json!({
            "apiVersion": "aplomb.dev/v1alpha1", "kind": "HTTPProxy",
            "metadata": { "name": "web", "namespace": "default", "generation": 1 },
            "spec": { "rules": [{ "backends": [{ "connector": { "name": "laptop" } }] }] },
            "status": {
                "hostname": "web.example.com",
                "addresses": ["192.0.2.1:80"],
                "timeline": {
                    "created": "2026-01-01T00:00:00.000000Z",
                    "accepted": "2026-01-01T00:00:00.010000Z",
                    "childrenWritten": "2026-01-01T00:00:00.050000Z",
                },
                "conditions": [{
                    "type": "Ready", "status": "False", "reason": "ConnectorOffline",
                    "message": "connector laptop is offline", "observedGeneration": 1,
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }],
            },
        });
        serde_json::from_value(object).expect("an HTTPProxy")
    }

    #[test]
    fn a_description_has_readiness_and_reason() {
        let now: Timestamp = "2026-01-01T00:05:00Z".parse().expect("a time");
        let text = describe_tunnel(&proxy(), &[("laptop".to_owned(), None)], now);
        assert_eq!(
            text,
            "\
Tunnel:      web
Namespace:   default
Ready:       no
URL:         http://web.example.com
Gateways:    192.0.2.1:80
Connector:   laptop (does not exist)

CONDITION   STATUS   REASON             SINCE   MESSAGE
Ready       False    ConnectorOffline   5m      connector laptop is offline

STAGE              TOOK    AFTER   AT
Created            0 ms    0 ms    2026-01-01T00:00:00Z
Accepted           10 ms   10 ms   2026-01-01T00:00:00.01Z
Children written   40 ms   50 ms   2026-01-01T00:00:00.05Z
Programmed         -       -       -
Proven             -       -       -
"
        );
    }

    #[test]
    fn ready_for_an_older_spec_is_not_ready() {
        let mut proxy = proxy();
        if let Some(status) = &mut proxy.status {
            status.conditions[0].status = "True".to_owned();
        }
        assert!(is_ready(&proxy));
        proxy.metadata.generation = Some(2);
        assert!(!is_ready(&proxy));
    }
}
