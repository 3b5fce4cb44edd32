//! The operators and their kinds: the one list that installing, checking, completing and finding them go through.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

use crate::{
    CoderProvisioner, CoderWorkspaceProxy, Connector, ConnectorClass, GatewayReplica, HostnameClaim, HttpProxy,
    StableEgress,
};

/// An operator.
#[derive(Clone, Copy, Debug)]
pub struct Operator {
    /// Its name, as an argument of `aplomb run` and `aplomb crds`.
    pub name: &'static str,
    /// The name of its Lease.
    pub lease: &'static str,
    /// The plural of the kind that it cannot work without.
    pub main_plural: &'static str,
    /// The definitions of its kinds.
    pub definitions: fn() -> Vec<CustomResourceDefinition>,
}

/// The operator of Coder's provisioners and workspace proxies.
pub const CODER: Operator = Operator {
    name: "coder",
    lease: "aplomb-coder",
    main_plural: "coderprovisioners",
    definitions: coder_definitions,
};

/// The operator of tunnels.
pub const TUNNEL: Operator = Operator {
    name: "tunnel",
    lease: "aplomb-tunnel",
    main_plural: "httpproxies",
    definitions: tunnel_definitions,
};

/// The operator of floating IPs.
pub const EGRESS: Operator = Operator {
    name: "egress",
    lease: "aplomb-egress",
    main_plural: "stableegresses",
    definitions: egress_definitions,
};

/// All operators, in the order in which their objects are listed.
pub const OPERATORS: &[Operator] = &[CODER, TUNNEL, EGRESS];

/// The definitions of the Coder operator's kinds.
#[must_use]
pub fn coder_definitions() -> Vec<CustomResourceDefinition> {
    vec![CoderProvisioner::crd(), CoderWorkspaceProxy::crd()]
}

/// The definition of the egress operator's kind.
#[must_use]
pub fn egress_definitions() -> Vec<CustomResourceDefinition> {
    vec![StableEgress::crd()]
}

/// The definitions of the kinds of tunnels, in the order of their names.
#[must_use]
pub fn tunnel_definitions() -> Vec<CustomResourceDefinition> {
    vec![
        ConnectorClass::crd(),
        Connector::crd(),
        GatewayReplica::crd(),
        HostnameClaim::crd(),
        HttpProxy::crd(),
    ]
}

/// The definitions of all our kinds.
#[must_use]
pub fn definitions() -> Vec<CustomResourceDefinition> {
    OPERATORS.iter().flat_map(|operator| (operator.definitions)()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_main_kind_of_every_operator_is_defined() {
        for operator in OPERATORS {
            let definitions = (operator.definitions)();
            let plurals: Vec<&str> = definitions.iter().map(|it| it.spec.names.plural.as_str()).collect();
            assert!(
                plurals.contains(&operator.main_plural),
                "{}: {plurals:?}",
                operator.name
            );
            assert_eq!(operator.lease, format!("aplomb-{}", operator.name));
        }
    }
}
