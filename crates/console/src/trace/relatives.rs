//! The objects that belong to an object: those it owns and those it names. Returns queries; the caller reads.

use serde_json::Value;

use super::str_at;

/// A query for related objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelativeQuery {
    /// `v1`, `apps/v1`.
    pub api_version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub namespace: Option<String>,
    /// Which objects of the kind.
    pub filter: RelativeFilter,
    /// Their role for the object.
    pub role: &'static str,
}

/// Selects objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelativeFilter {
    /// The object with this name.
    Name(String),
    /// Objects with an owner of this UID.
    Owner(String),
    /// Objects with this text at a JSON pointer.
    Field(&'static str, String),
}

impl RelativeFilter {
    /// Whether an object matches.
    #[must_use]
    pub fn matches(&self, object: &Value) -> bool {
        match self {
            Self::Name(name) => str_at(object, "/metadata/name") == name,
            Self::Owner(uid) => {
                let owners = object.pointer("/metadata/ownerReferences");
                let owners = owners.and_then(Value::as_array).into_iter().flatten();
                owners.into_iter().any(|owner| str_at(owner, "/uid") == uid)
            }
            Self::Field(pointer, text) => str_at(object, pointer) == text,
        }
    }
}

/// An object that belongs to another one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Relative {
    /// The UID of the object it belongs to.
    pub parent: String,
    pub kind: String,
    pub namespace: Option<String>,
    pub name: String,
    /// Its role for that object.
    pub role: String,
    /// Whether it exists; `None` if that is not known.
    pub exists: Option<bool>,
    /// The object, if it could be read.
    pub object: Option<Value>,
}

/// The queries for everything that belongs to `object`.
#[must_use]
pub fn relative_queries(object: &Value) -> Vec<RelativeQuery> {
    let namespace = Some(str_at(object, "/metadata/namespace").to_owned());
    let namespace = namespace.filter(|it| !it.is_empty());
    let uid = str_at(object, "/metadata/uid").to_owned();
    let own = |(api_version, kind, plural)| RelativeQuery {
        api_version,
        kind,
        plural,
        namespace: namespace.clone(),
        filter: RelativeFilter::Owner(uid.clone()),
        role: "owned",
    };
    match str_at(object, "/kind") {
        "HTTPProxy" => {
            let mut all: Vec<RelativeQuery> = TUNNEL.map(own).into();
            all.push(claim_query(&uid));
            all.extend(connector_queries(object, namespace.as_deref()));
            all
        }
        "Connector" => vec![lease_query(object, namespace)],
        "CoderProvisioner" | "CoderWorkspaceProxy" => {
            let mut all: Vec<RelativeQuery> = CODER.map(own).into();
            all.extend(token_queries(object, namespace.as_ref()));
            all
        }
        "StableEgress" => node_queries(object),
        "HostnameClaim" => {
            let there = Some(str_at(object, "/spec/claimant/namespace").to_owned());
            let name = str_at(object, "/spec/claimant/name");
            let proxy = (API_VERSION, "HTTPProxy", "httpproxies");
            vec![named_query(proxy, there, name, "claimant")]
        }
        _ => Vec::new(),
    }
}

/// The Lease of a Connector: the one in its status, or the one with its name.
fn lease_query(connector: &Value, namespace: Option<String>) -> RelativeQuery {
    let said = str_at(connector, "/status/leaseRef/name");
    let name = if said.is_empty() {
        str_at(connector, "/metadata/name")
    } else {
        said
    };
    let lease = ("coordination.k8s.io/v1", "Lease", "leases");
    named_query(lease, namespace, name, "its heartbeat")
}

/// The Secrets that an object of Coder reads tokens from.
fn token_queries(object: &Value, namespace: Option<&String>) -> Vec<RelativeQuery> {
    let places = [
        "/spec/server/tokenSecretRef/name",
        "/spec/bootstrap/server/tokenSecretRef/name",
    ];
    let names = places.map(|at| str_at(object, at)).into_iter();
    names
        .filter(|name| !name.is_empty())
        .map(|name| named_query(SECRET, namespace.cloned(), name, "token for the server"))
        .collect()
}

type Kind = (&'static str, &'static str, &'static str);

const API_VERSION: &str = "aplomb.dev/v1alpha1";
const SECRET: Kind = ("v1", "Secret", "secrets");
const TUNNEL: [Kind; 3] = [
    ("gateway.networking.k8s.io/v1", "Gateway", "gateways"),
    ("gateway.networking.k8s.io/v1", "HTTPRoute", "httproutes"),
    ("discovery.k8s.io/v1", "EndpointSlice", "endpointslices"),
];
const CODER: [Kind; 6] = [
    ("apps/v1", "Deployment", "deployments"),
    ("v1", "Service", "services"),
    SECRET,
    ("v1", "ServiceAccount", "serviceaccounts"),
    ("rbac.authorization.k8s.io/v1", "Role", "roles"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings"),
];

fn named_query(
    (api_version, kind, plural): Kind,
    namespace: Option<String>,
    name: &str,
    role: &'static str,
) -> RelativeQuery {
    RelativeQuery {
        api_version,
        kind,
        plural,
        namespace,
        filter: RelativeFilter::Name(name.to_owned()),
        role,
    }
}

fn claim_query(uid: &str) -> RelativeQuery {
    RelativeQuery {
        api_version: API_VERSION,
        kind: "HostnameClaim",
        plural: "hostnameclaims",
        namespace: None,
        filter: RelativeFilter::Field("/spec/claimant/uid", uid.to_owned()),
        role: "its hostname",
    }
}

fn connector_queries(object: &Value, namespace: Option<&str>) -> Vec<RelativeQuery> {
    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let rules = list(&object["spec"], "rules");
    let backends = rules.iter().flat_map(|rule| list(rule, "backends"));
    let names = backends.map(|backend| str_at(&backend, "/connector/name").to_owned());
    let mut names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
    names.sort();
    names.dedup();
    let kind = (API_VERSION, "Connector", "connectors");
    let look = |name: &String| named_query(kind, namespace.map(str::to_owned), name, "backend");
    names.iter().map(look).collect()
}

/// The current, previous and next node of the floating IP.
fn node_queries(object: &Value) -> Vec<RelativeQuery> {
    let known = [
        ("/status/activeNode", "gateway"),
        ("/status/moving/to", "target of the move"),
        ("/status/lastMove/to", "target of the last move"),
        ("/status/lastMove/from", "source of the last move"),
    ];
    let mut all: Vec<RelativeQuery> = Vec::new();
    for (pointer, role) in known {
        let name = str_at(object, pointer);
        let seen = all
            .iter()
            .any(|look| look.filter == RelativeFilter::Name(name.to_owned()));
        if !name.is_empty() && !seen {
            all.push(named_query(("v1", "Node", "nodes"), None, name, role));
        }
    }
    all
}
