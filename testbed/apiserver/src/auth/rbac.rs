//! RBAC: what the stored Roles, ClusterRoles and their bindings allow.
//!
//! Reads the store past every fault; decides, and explains a refusal in the server's words.

use aplomb_apimachinery::field::go_quote;
use aplomb_apimachinery::status::{ApiError, GroupResource};
use serde_json::Value;

use super::rules::Rule;
use super::tokens::{AUTHENTICATED, MASTERS};
use crate::call::User;
use crate::server::ApiServer;

pub(super) const GROUP: &str = "rbac.authorization.k8s.io";

/// What anybody may read, known or not.
const PUBLIC_PATHS: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];

/// What anybody may read who is known.
const DISCOVERY_PATHS: [&str; 11] = [
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/readyz",
    "/version",
    "/version/",
];

/// What somebody wants to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Attributes {
    pub is_resource: bool,
    pub verb: String,
    pub group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub path: String,
}

impl Attributes {
    /// `resource` or `resource/subresource`.
    #[must_use]
    pub fn combined(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }
}

/// The answer of the authorizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationDecision {
    /// May go on.
    pub allowed: bool,
    /// Why, where the authorizer says so.
    pub reason: String,
}

/// Rules every server starts with: what anybody who is known may always do.
fn basic_rules(user: &User) -> Vec<Rule> {
    let words = |list: &[&str]| list.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let read = |urls: &[&str]| Rule {
        verbs: words(&["get"]),
        urls: words(urls),
        ..Rule::default()
    };
    if !user.groups.iter().any(|group| group == AUTHENTICATED) {
        return vec![read(&PUBLIC_PATHS)];
    }
    let create = |group: &str, resources: &[&str]| Rule {
        verbs: words(&["create"]),
        groups: words(&[group]),
        resources: words(resources),
        ..Rule::default()
    };
    vec![
        create(
            "authorization.k8s.io",
            &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
        ),
        create("authentication.k8s.io", &["selfsubjectreviews"]),
        read(&DISCOVERY_PATHS),
        read(&PUBLIC_PATHS),
    ]
}

/// Whether a user may do something.
#[must_use]
pub fn authorize(server: &ApiServer, user: &User, asked: &Attributes) -> AuthorizationDecision {
    let allow = |reason: String| AuthorizationDecision { allowed: true, reason };
    if !server.rbac() || user.groups.iter().any(|group| group == MASTERS) {
        return allow(String::new());
    }
    if basic_rules(user).iter().any(|rule| rule.allows(asked)) {
        return allow(basic_reason(asked));
    }
    for (binding, role, rules) in bound_roles(server, user, Some(&asked.namespace)) {
        if rules.iter().any(|rule| rule.allows(asked)) {
            return allow(format!("RBAC: allowed by {binding} of {role}"));
        }
    }
    AuthorizationDecision {
        allowed: false,
        reason: String::new(),
    }
}

fn basic_reason(asked: &Attributes) -> String {
    let role = if asked.is_resource {
        "system:basic-user"
    } else {
        "system:discovery"
    };
    format!(
        "RBAC: allowed by ClusterRoleBinding \"{role}\" of ClusterRole \"{role}\" to Group \
         \"{AUTHENTICATED}\""
    )
}

/// Every rule a user has in a namespace, or across the cluster.
#[must_use]
pub(super) fn rules_for(server: &ApiServer, user: &User, namespace: &str) -> Vec<Rule> {
    let mut rules = Vec::new();
    // A server that has stored its first bindings says these rules by them.
    let stored = server.get(GROUP, "clusterrolebindings", "", "cluster-admin");
    let master = user.groups.iter().any(|group| group == MASTERS);
    if !server.rbac() || (master && stored.is_none()) {
        let all = || vec!["*".to_owned()];
        rules.push(Rule {
            verbs: all(),
            groups: all(),
            resources: all(),
            ..Rule::default()
        });
        rules.push(Rule {
            verbs: all(),
            urls: all(),
            ..Rule::default()
        });
    }
    if stored.is_none() {
        rules.extend(basic_rules(user));
    }
    rules.extend(
        bound_roles(server, user, Some(namespace))
            .into_iter()
            .flat_map(|(_, _, rules)| rules),
    );
    rules
}

/// Bindings of a user, described, with the role they name and its rules.
fn bound_roles(server: &ApiServer, user: &User, namespace: Option<&str>) -> Vec<(String, String, Vec<Rule>)> {
    let mut found = Vec::new();
    for binding in server.list(GROUP, "clusterrolebindings") {
        let Some(subject) = subject(&binding, user, "") else {
            continue;
        };
        let name = go_quote(aplomb_apimachinery::object::name(&binding));
        found.extend(role_of(
            server,
            &binding,
            "",
            &format!("ClusterRoleBinding {name}"),
            &subject,
        ));
    }
    let namespace = namespace.unwrap_or_default();
    if namespace.is_empty() {
        return found;
    }
    for binding in server.list(GROUP, "rolebindings") {
        if aplomb_apimachinery::object::namespace(&binding) != namespace {
            continue;
        }
        let Some(subject) = subject(&binding, user, namespace) else {
            continue;
        };
        let name = format!("{}/{namespace}", aplomb_apimachinery::object::name(&binding));
        let described = format!("RoleBinding {}", go_quote(&name));
        found.extend(role_of(server, &binding, namespace, &described, &subject));
    }
    found
}

fn role_of(
    server: &ApiServer,
    binding: &Value,
    namespace: &str,
    described: &str,
    subject: &str,
) -> Option<(String, String, Vec<Rule>)> {
    let text = |pointer: &str| binding.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (kind, name) = (text("/roleRef/kind"), text("/roleRef/name"));
    let role = match kind {
        "ClusterRole" => server.get(GROUP, "clusterroles", "", name),
        "Role" => server.get(GROUP, "roles", namespace, name),
        _ => None,
    }?;
    let rules = Rule::of_role(&role);
    Some((
        described.to_owned(),
        format!("{kind} {} to {subject}", go_quote(name)),
        rules,
    ))
}

/// The subject of a binding that is this user, described.
fn subject(binding: &Value, user: &User, namespace: &str) -> Option<String> {
    let subjects = binding.get("subjects").and_then(Value::as_array)?;
    subjects.iter().find_map(|subject| {
        let text = |member: &str| subject.get(member).and_then(Value::as_str).unwrap_or_default();
        let name = text("name");
        match text("kind") {
            "User" if user.name == name => Some(format!("User {}", go_quote(name))),
            "Group" if user.groups.iter().any(|g| g == name) => Some(format!("Group {}", go_quote(name))),
            "ServiceAccount" => {
                let home = if text("namespace").is_empty() {
                    namespace
                } else {
                    text("namespace")
                };
                let full = format!("system:serviceaccount:{home}:{name}");
                let described = go_quote(&format!("{name}/{home}"));
                (user.name == full).then(|| format!("ServiceAccount {described}"))
            }
            _ => None,
        }
    })
}

/// The refusal of a request, in the server's words.
#[must_use]
pub fn refusal(user: &User, asked: &Attributes, reason: &str) -> ApiError {
    let name = go_quote(&user.name);
    if !asked.is_resource {
        let why = format!("User {name} cannot {} path {}", asked.verb, go_quote(&asked.path));
        return ApiError::forbidden(&GroupResource::default(), "", &with_reason(why, reason));
    }
    let place = if asked.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace {}", go_quote(&asked.namespace))
    };
    let why = format!(
        "User {name} cannot {} resource {} in API group {} {place}",
        asked.verb,
        go_quote(&asked.combined()),
        go_quote(&asked.group)
    );
    let gr = GroupResource::new(&asked.group, &asked.resource);
    ApiError::forbidden(&gr, &asked.name, &with_reason(why, reason))
}

fn with_reason(why: String, reason: &str) -> String {
    if reason.is_empty() {
        why
    } else {
        format!("{why}: {reason}")
    }
}
