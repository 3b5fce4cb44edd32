//! Policy rules as roles hold them, and whether one covers a request.
//!
//! Pure matching; which roles apply to whom is `rbac`'s business.

use serde_json::Value;

use super::rbac::Attributes;

/// One rule of a role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rule {
    pub verbs: Vec<String>,
    pub groups: Vec<String>,
    pub resources: Vec<String>,
    pub names: Vec<String>,
    pub urls: Vec<String>,
}

impl Rule {
    /// Reads the rules of a stored Role or ClusterRole.
    pub(super) fn of_role(role: &Value) -> Vec<Self> {
        let rules = role.get("rules").and_then(Value::as_array);
        rules.into_iter().flatten().map(Self::read).collect()
    }

    fn read(value: &Value) -> Self {
        let list = |member: &str| {
            let items = value.get(member).and_then(Value::as_array);
            items
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect()
        };
        Self {
            verbs: list("verbs"),
            groups: list("apiGroups"),
            resources: list("resources"),
            names: list("resourceNames"),
            urls: list("nonResourceURLs"),
        }
    }

    /// Whether the rule allows a request.
    pub(super) fn allows(&self, asked: &Attributes) -> bool {
        if !has(&self.verbs, &asked.verb) {
            return false;
        }
        if !asked.is_resource {
            return self.urls.iter().any(|url| url_matches(url, &asked.path));
        }
        let names = &self.names;
        has(&self.groups, &asked.group)
            && self.resource_matches(asked)
            && (names.is_empty() || names.contains(&asked.name))
    }

    fn resource_matches(&self, asked: &Attributes) -> bool {
        let combined = asked.combined();
        let any_parent = format!("*/{}", asked.subresource);
        self.resources
            .iter()
            .any(|rule| rule == "*" || *rule == combined || (!asked.subresource.is_empty() && *rule == any_parent))
    }

    /// Rules this small cannot be covered in part: one verb, one group, one resource or URL each.
    pub(super) fn split(&self) -> Vec<Self> {
        let mut parts = Vec::new();
        let names: Vec<Vec<String>> = if self.names.is_empty() {
            vec![Vec::new()]
        } else {
            self.names.iter().map(|name| vec![name.clone()]).collect()
        };
        for verb in &self.verbs {
            for url in &self.urls {
                parts.push(Self {
                    verbs: vec![verb.clone()],
                    urls: vec![url.clone()],
                    ..Self::default()
                });
            }
            for group in &self.groups {
                for resource in &self.resources {
                    for names in &names {
                        parts.push(Self {
                            verbs: vec![verb.clone()],
                            groups: vec![group.clone()],
                            resources: vec![resource.clone()],
                            names: names.clone(),
                            urls: Vec::new(),
                        });
                    }
                }
            }
        }
        parts
    }

    /// Whether a rule made by `split` is wholly within this one.
    pub(super) fn covers(&self, small: &Self) -> bool {
        let verbs = small.verbs.iter().all(|verb| has(&self.verbs, verb));
        if let [url] = small.urls.as_slice() {
            return verbs && self.urls.iter().any(|owned| url_matches(owned, url));
        }
        let names = self.names.is_empty()
            || (!small.names.is_empty() && small.names.iter().all(|name| self.names.contains(name)));
        verbs
            && small.groups.iter().all(|group| has(&self.groups, group))
            && small.resources.iter().all(|resource| self.covers_resource(resource))
            && names
    }

    fn covers_resource(&self, resource: &str) -> bool {
        let any_parent = resource.split_once('/').map(|(_, sub)| format!("*/{sub}"));
        self.resources
            .iter()
            .any(|owned| owned == "*" || owned == resource || Some(owned) == any_parent.as_ref())
    }

    /// The rule as the server prints it in a refusal.
    pub(super) fn describe(&self) -> String {
        let quoted = |list: &[String]| {
            list.iter()
                .map(|s| aplomb_apimachinery::field::go_quote(s))
                .collect::<Vec<_>>()
                .join(" ")
        };
        let mut parts = Vec::new();
        let mut part = |name: &str, list: &[String]| {
            if !list.is_empty() {
                parts.push(format!("{name}:[{}]", quoted(list)));
            }
        };
        part("APIGroups", &self.groups);
        part("Resources", &self.resources);
        part("NonResourceURLs", &self.urls);
        part("ResourceNames", &self.names);
        part("Verbs", &self.verbs);
        format!("{{{}}}", parts.join(", "))
    }
}

fn has(list: &[String], value: &str) -> bool {
    list.iter().any(|item| item == "*" || item == value)
}

fn url_matches(rule: &str, path: &str) -> bool {
    rule == "*" || rule == path || rule.strip_suffix('*').is_some_and(|prefix| path.starts_with(prefix))
}
