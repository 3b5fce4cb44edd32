//! Promise: a tunnel that a gateway omits is not programmed, however many routes it omits.

use serde_json::{Value, json};

use crate::lab::{create_tunnel, on_box, seconds, until};
use crate::operator::Operator;
use crate::replica::Replica;

#[test]
fn a_tunnel_beyond_the_first_512_that_are_left_out_is_not_programmed() {
    on_box(1, |lab| async move {
        let _operator = Operator::start(&lab, "operator");
        let gateway = Replica::start(&lab, "gateway-1");
        let all = "999999999";
        let applied = json!({
            "gateways": all, "httpRoutes": all, "endpointSlices": all, "connectors": all,
            "secrets": all, "claims": all,
        });
        let bad = |it| json!({ "namespace": "flood", "name": format!("web-{it}"), "reason": "bad" });
        let first: Vec<Value> = (0..512).map(bad).collect();
        create_tunnel(&lab.user(), "web", "laptop").await;
        for (more, reason) in [
            (
                json!({ "relays": [], "moreQuarantined": ["default/web"] }),
                "Quarantined",
            ),
            (json!({ "relays": [], "incomplete": ["default"] }), "ReportIncomplete"),
            (json!({ "relays": [] }), "Programmed"),
            // An older gateway truncates its list there.
            (json!({}), "ReportIncomplete"),
        ] {
            let mut words = json!({ "applied": applied, "quarantined": first });
            let fields = words.as_object_mut().expect("an object");
            fields.extend(more.as_object().expect("an object").clone());
            gateway.set_fields(words);
            let says = || lab.proxy_condition("web", "Programmed").reason == reason;
            until(seconds(10), reason, says).await;
        }
    });
}
