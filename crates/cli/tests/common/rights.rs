//! Compares the rights of a ServiceAccount with those it used, according to the API server's audit log.
//!
//! A forbidden call is a missing right; a right that no scenario used is one too many. Rights whose use is not in
//! the log, or not certain in every run, are excused by name, with the reason.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use aplomb_controlplane::ControlPlane;
use serde_json::Value;

use crate::kubectl::kubectl;

/// A verb on a resource, in one namespace or in all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Right {
    /// Empty for all namespaces, and for cluster-scoped resources.
    namespace: String,
    group: String,
    /// With its subresource, such as `nodes/status`.
    resource: String,
    verb: String,
    /// The only names it is for; empty for all names.
    names: Vec<String>,
}

impl Right {
    /// On all objects of a kind, in all namespaces.
    #[allow(dead_code, reason = "only the test of the accounting creates one by hand")]
    pub(crate) fn in_all(group: &str, resource: &str, verb: &str) -> Self {
        Self {
            namespace: String::new(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            verb: verb.to_owned(),
            names: Vec::new(),
        }
    }

    fn allows(&self, request: &Request) -> bool {
        (self.namespace.is_empty() || self.namespace == request.namespace)
            && self.group == request.group
            && self.resource == request.resource
            && self.verb == request.verb
            && (self.names.is_empty() || self.names.contains(&request.name))
    }

    /// `patch nodes`, as excuses name it.
    fn told(&self) -> String {
        format!("{} {}", self.verb, self.resource)
    }

    fn is(&self, what: &str) -> bool {
        let all = what.strip_prefix("* ").is_some_and(|of| of == self.resource);
        all || what == self.told()
    }
}

/// One request with a response.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) namespace: String,
    group: String,
    resource: String,
    verb: String,
    name: String,
    refused: bool,
}

impl Request {
    fn of(line: &Value) -> Option<Self> {
        let object = &line["objectRef"];
        let part = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
        let resource = match object["subresource"].as_str() {
            None => part("resource"),
            Some(sub) => format!("{}/{sub}", part("resource")),
        };
        // For rights, the namespace of a Namespace object is the object itself.
        let namespace = match resource.as_str() {
            "namespaces" => part("name"),
            _ => part("namespace"),
        };
        let decision = &line["annotations"]["authorization.k8s.io/decision"];
        (!resource.is_empty()).then(|| Self {
            namespace,
            group: part("apiGroup"),
            resource,
            verb: line["verb"].as_str().unwrap_or_default().to_owned(),
            name: part("name"),
            refused: decision == "forbid",
        })
    }
}

/// A right whose use the audit log does not show, as `VERB RESOURCE` or `* RESOURCE`, and the reason it is needed.
pub(crate) type Excuse = (&'static str, &'static str);

/// Why a written kind may also be read.
pub(crate) const LOOK: &str = "read after a conflict that the watch is late to show, which need not happen";

/// The rights and requests of one ServiceAccount.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pub(crate) granted: BTreeSet<Right>,
    pub(crate) requests: Vec<Request>,
}

impl Account {
    /// The rights bound to the account, and its requests so far.
    pub(crate) fn of(plane: &ControlPlane, namespace: &str, name: &str) -> Result<Self> {
        let user = format!("system:serviceaccount:{namespace}:{name}");
        let text = std::fs::read_to_string(plane.audit_log())?;
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut account = Self {
            granted: granted(plane, namespace, name)?,
            requests: Vec::new(),
        };
        for line in lines.filter(|line| line["user"]["username"] == user.as_str()) {
            account.told(&line);
        }
        Ok(account)
    }

    /// Adds one line of the audit log. A patch that created an object also needed the right to create, for
    /// which the log has no line.
    pub(crate) fn told(&mut self, line: &Value) {
        let Some(request) = Request::of(line) else {
            return;
        };
        if request.verb == "patch" && line["responseStatus"]["code"] == 201 {
            let verb = "create".to_owned();
            let name = String::new();
            let made = Request {
                verb,
                name,
                ..request.clone()
            };
            self.requests.push(made);
        }
        self.requests.push(request);
    }

    /// Forbidden requests, with their number.
    pub(crate) fn missing(&self) -> BTreeMap<String, usize> {
        let mut missing = BTreeMap::new();
        for it in self.requests.iter().filter(|request| request.refused) {
            let what = format!("{} {} {} in {:?}", it.verb, it.resource, it.name, it.namespace);
            *missing.entry(what).or_default() += 1;
        }
        missing
    }

    /// Rights that no request needed. If two rights allow a request, the narrower one counts as used.
    pub(crate) fn unused(&self) -> BTreeSet<&Right> {
        let mut unused: BTreeSet<&Right> = self.granted.iter().collect();
        for request in self.requests.iter().filter(|request| !request.refused) {
            let fitting = self.granted.iter().filter(|right| right.allows(request));
            let narrow = |right: &&Right| (right.namespace.is_empty(), right.names.is_empty());
            if let Some(right) = fitting.min_by_key(narrow) {
                unused.remove(right);
            }
        }
        unused
    }

    /// Prints the account; an error if rights are missing or unused.
    pub(crate) fn settle(&self, who: &str, excuses: &[Excuse]) -> Result<()> {
        let (missing, unused) = (self.missing(), self.unused());
        let excused = |right: &&&Right| excuses.iter().any(|(what, _)| right.is(what));
        let (fine, too_many): (Vec<&Right>, Vec<&Right>) = unused.iter().partition(|right| excused(right));
        println!(
            "        {who}: {} requests, {} rights, {} used, {} excused",
            self.requests.len(),
            self.granted.len(),
            self.granted.len() - unused.len(),
            fine.len()
        );
        for (what, times) in &missing {
            println!("        - missing: {what}, forbidden {times} times");
        }
        for right in &too_many {
            println!(
                "        + unused: {} of {:?} in {:?}",
                right.told(),
                right.group,
                right.namespace
            );
        }
        ensure!(!self.requests.is_empty(), "the audit log has no requests of {who}");
        ensure!(
            missing.is_empty() && too_many.is_empty(),
            "{who}: missing {missing:?}, unused {too_many:?}"
        );
        // An excused right may be used. A right that does not exist needs no excuse.
        let void = |excuse: &&Excuse| !self.granted.iter().any(|right| right.is(excuse.0));
        let void: Vec<_> = excuses.iter().filter(void).collect();
        ensure!(void.is_empty(), "excused but not granted: {void:?}");
        Ok(())
    }
}

/// Every right that is bound to the account.
fn granted(plane: &ControlPlane, namespace: &str, name: &str) -> Result<BTreeSet<Right>> {
    let read = |args: &[&str]| -> Result<Vec<Value>> {
        let list: Value = serde_json::from_str(&kubectl(plane, args, "")?)?;
        let items = list["items"].as_array().context("no list")?;
        Ok(items.clone())
    };
    let bindings = read(&["get", "clusterrolebindings,rolebindings", "-A", "-o", "json"])?;
    let roles = read(&["get", "clusterroles,roles", "-A", "-o", "json"])?;
    let mut granted = BTreeSet::new();
    for binding in bindings.iter().filter(|it| binds(it, namespace, name)) {
        let place = &binding["metadata"]["namespace"];
        let role = roles.iter().find(|role| {
            let same =
                role["kind"] == binding["roleRef"]["kind"] && role["metadata"]["name"] == binding["roleRef"]["name"];
            same && (role["kind"] == "ClusterRole" || &role["metadata"]["namespace"] == place)
        });
        let role = role.with_context(|| format!("no role for {}", binding["metadata"]["name"]))?;
        let rules = role["rules"].as_array().into_iter().flatten();
        let place = place.as_str().unwrap_or_default();
        granted.extend(rules.flat_map(|rule| expanded(rule, place)));
    }
    Ok(granted)
}

fn binds(binding: &Value, namespace: &str, name: &str) -> bool {
    let mut subjects = binding["subjects"].as_array().into_iter().flatten();
    subjects.any(|it| it["kind"] == "ServiceAccount" && it["name"] == name && it["namespace"] == namespace)
}

/// A rule as rights.
fn expanded(rule: &Value, namespace: &str) -> Vec<Right> {
    let words = |key: &str| {
        let words = rule[key].as_array().into_iter().flatten();
        words.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    let (resources, verbs) = (words("resources"), words("verbs"));
    let pairs = resources
        .iter()
        .flat_map(|resource| verbs.iter().map(move |verb| (resource, verb)));
    let groups = words("apiGroups");
    let all = groups
        .iter()
        .flat_map(|group| pairs.clone().map(move |pair| (group, pair)));
    all.map(|(group, (resource, verb))| Right {
        namespace: namespace.to_owned(),
        group: group.clone(),
        resource: resource.clone(),
        verb: verb.clone(),
        names: words("resourceNames"),
    })
    .collect()
}
