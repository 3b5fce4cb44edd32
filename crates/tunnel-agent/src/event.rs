//! Events that an agent reports while it runs. Programs read their names and fields (`--json`), so these may be extended
//! but never change their meaning. The status of an HTTPProxy is converted to events: each stage once, each problem when it
//! changes, and conditions of an older generation are ignored.

use std::net::SocketAddr;

use aplomb_api::tunnel::{HttpProxy, conditions, reasons};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum AgentEvent {
    /// The Connector and the HTTPProxy exist.
    Registered {
        namespace: String,
        connector: String,
        /// The HTTPProxy, if the agent has one.
        #[serde(skip_serializing_if = "Option::is_none")]
        tunnel: Option<String>,
        /// The id of this agent session.
        session: String,
    },
    /// The operator has published the gateways and relays.
    Accepted { gateways: usize, relays: usize },
    /// Gateways can connect.
    Listening {
        id: String,
        addresses: Vec<SocketAddr>,
        #[serde(skip_serializing_if = "Option::is_none")]
        relay: Option<String>,
    },
    /// A heartbeat failed.
    HeartbeatLost { message: String },
    /// A heartbeat succeeded again.
    HeartbeatRecovered,
    /// Every live gateway serves the tunnel.
    Programmed,
    /// Every live gateway returned a signed proof.
    Proven { url: String },
    /// The tunnel does not work or is not ready yet.
    NotReady { reason: String, message: String },
    /// The tunnel works, but the agent cannot connect to its origin.
    OriginUnreachable { message: String },
    /// A gateway's request was refused: it named another Connector, or uses another version.
    Refused { message: String },
    /// An object was deleted.
    Deleted {
        /// The object, such as `httpproxy/web`.
        object: String,
    },
    /// The lease was released: the connector is offline.
    Released,
}

#[derive(Debug, Default)]
pub(crate) struct ReportedState {
    programmed: bool,
    ready: Option<AgentEvent>,
    origin: Option<AgentEvent>,
}

impl ReportedState {
    pub(crate) fn new_events(&mut self, proxy: &HttpProxy) -> Vec<AgentEvent> {
        let mut news = Vec::new();
        let programmed = current_condition(proxy, conditions::PROGRAMMED).is_some_and(is_true);
        if programmed && !self.programmed {
            news.push(AgentEvent::Programmed);
        }
        self.programmed = programmed;
        let origin = current_condition(proxy, conditions::ORIGIN_REACHABLE)
            .filter(|it| it.status == "False" && it.reason == reasons::ORIGIN_UNREACHABLE)
            .map(|condition| AgentEvent::OriginUnreachable {
                message: condition.message.clone(),
            });
        if origin.is_some() && origin != self.origin {
            news.extend(origin.clone());
        }
        self.origin = origin;
        let ready = current_condition(proxy, conditions::READY).map(|ready| readiness_event(proxy, ready));
        if ready.is_some() && ready != self.ready {
            news.extend(ready.clone());
            self.ready = ready;
        }
        news
    }
}

fn readiness_event(proxy: &HttpProxy, ready: &Condition) -> AgentEvent {
    match is_true(ready) {
        true => AgentEvent::Proven { url: public_url(proxy) },
        false => AgentEvent::NotReady {
            reason: ready.reason.clone(),
            message: ready.message.clone(),
        },
    }
}

fn public_url(proxy: &HttpProxy) -> String {
    let scheme = match proxy.spec.tls {
        Some(_) => "https",
        None => "http",
    };
    let status = proxy.status.as_ref();
    let hostname = status.and_then(|status| status.hostname.as_deref());
    format!("{scheme}://{}", hostname.unwrap_or_default())
}

/// A condition, if it is about the current generation.
fn current_condition<'a>(proxy: &'a HttpProxy, kind: &str) -> Option<&'a Condition> {
    let conditions = &proxy.status.as_ref()?.conditions;
    let found = conditions.iter().find(|condition| condition.type_ == kind)?;
    (found.observed_generation >= proxy.metadata.generation).then_some(found)
}

fn is_true(condition: &Condition) -> bool {
    condition.status == "True"
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn proxy(generation: i64, told: &[(&str, &str, &str)]) -> HttpProxy {
        let condition = |(kind, status, reason): &(&str, &str, &str)| -> Value {
            json!({
                "type": kind, "status": status, "reason": reason, "message": "why",
                "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        let told: Vec<Value> = told.iter().map(condition).collect();
        let object = json!({
            "apiVersion": "aplomb.dev/v1alpha1", "kind": "HTTPProxy",
            "metadata": { "name": "web", "generation": generation },
            "spec": { "rules": [] },
            "status": { "hostname": "web.example.com", "conditions": told },
        });
        serde_json::from_value(object).expect("an HTTPProxy")
    }

    fn event_names(events: &[AgentEvent]) -> Vec<String> {
        let word = |event: &AgentEvent| {
            let event = serde_json::to_value(event).expect("JSON");
            event["event"].as_str().unwrap_or_default().to_owned()
        };
        events.iter().map(word).collect()
    }

    #[test]
    fn each_stage_is_reported_once() {
        let mut progress = ReportedState::default();
        let pending = proxy(1, &[("Ready", "False", "Pending")]);
        assert_eq!(event_names(&progress.new_events(&pending)), ["not_ready"]);
        assert!(progress.new_events(&pending).is_empty());
        let done = proxy(1, &[("Programmed", "True", "Programmed"), ("Ready", "True", "Proven")]);
        assert_eq!(event_names(&progress.new_events(&done)), ["programmed", "proven"]);
        assert!(progress.new_events(&done).is_empty());
        assert_eq!(event_names(&progress.new_events(&pending)), ["not_ready"]);
    }

    #[test]
    fn a_condition_of_an_older_spec_is_ignored() {
        let old = proxy(2, &[("Programmed", "True", "Programmed"), ("Ready", "True", "Proven")]);
        assert!(ReportedState::default().new_events(&old).is_empty());
    }

    #[test]
    fn an_unreachable_origin_has_its_own_event() {
        let down = proxy(
            1,
            &[
                ("OriginReachable", "False", "OriginUnreachable"),
                ("Ready", "False", "OriginUnreachable"),
            ],
        );
        let told = event_names(&ReportedState::default().new_events(&down));
        assert_eq!(told, ["origin_unreachable", "not_ready"]);
        let hidden = proxy(
            1,
            &[
                ("OriginReachable", "False", "OriginNotExposed"),
                ("Ready", "False", "OriginNotExposed"),
            ],
        );
        let told = event_names(&ReportedState::default().new_events(&hidden));
        assert_eq!(told, ["not_ready"], "one event is enough");
    }
}
