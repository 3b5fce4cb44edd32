//! What a Service uses: itself, a load balancer, ports of nodes.

use serde_json::Value;

use super::super::quantity::Quantity;
use super::super::value::{at, list, number, text};
use super::amounts::Amounts;

/// Everything counted of Services.
pub(super) const NAMES: [&str; 4] = [
    "count/services",
    "services",
    "services.nodeports",
    "services.loadbalancers",
];

/// What one Service uses. Ports are counted before they are given out.
pub(super) fn usage(service: &Value) -> Amounts {
    let ports = list(service, &["spec", "ports"]);
    let stated = ports
        .iter()
        .filter(|port| number(port, &["nodePort"]).unwrap_or(0) != 0);
    let chosen = at(service, &["spec", "allocateLoadBalancerNodePorts"]) == false;
    let (nodeports, balancers) = match text(service, &["spec", "type"]) {
        "NodePort" => (ports.len(), 0),
        "LoadBalancer" if chosen => (stated.count(), 1),
        "LoadBalancer" => (ports.len(), 1),
        _ => (0, 0),
    };
    let used = NAMES.into_iter().zip([1, 1, nodeports, balancers]);
    used.map(|(name, count)| (name.to_owned(), Quantity::count(count)))
        .collect()
}

/// Whether a Service counts as another kind of Service after a change.
pub(super) fn turns(old: &Value, new: &Value) -> bool {
    let counted = |service| match text(service, &["spec", "type"]) {
        kind @ ("NodePort" | "LoadBalancer") => kind,
        _ => "",
    };
    counted(old) != counted(new)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::amounts::shown;
    use super::*;

    fn used(kind: &str, allocates: bool) -> String {
        let ports = json!([{ "port": 80 }, { "port": 81, "nodePort": 30000 }]);
        let spec = json!({ "type": kind, "ports": ports, "allocateLoadBalancerNodePorts": allocates });
        shown(&usage(&json!({ "spec": spec })))
    }

    #[test]
    fn ports_and_balancers_depend_on_the_type() {
        let of = |nodeports, balancers| {
            format!("count/services=1,services=1,services.loadbalancers={balancers},services.nodeports={nodeports}")
        };
        assert_eq!(used("ClusterIP", true), of(0, 0));
        assert_eq!(used("NodePort", true), of(2, 0));
        assert_eq!(used("LoadBalancer", true), of(2, 1));
        assert_eq!(used("LoadBalancer", false), of(1, 1));
    }
}
