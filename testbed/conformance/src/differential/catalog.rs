//! The kinds of a run: where they live, what a plain object of each looks like, and the fragments,
//! accepted and refused, that the generator puts together.
//!
//! Everything about a kind is data in `menu/`; nothing here may know one kind from another.

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

/// The label every watch with a selector asks for.
pub const WATCHED: &str = "watched=yes";

/// Name of the object of each kind that marks a moment in the watches.
pub const BARRIER: &str = "barrier";

/// Namespaces that exist throughout a run.
pub const NAMESPACES: [&str; 2] = ["ns-a", "ns-b"];

const MENUS: [&str; 24] = [
    include_str!("menu/configmap.yaml"),
    include_str!("menu/secret.yaml"),
    include_str!("menu/service.yaml"),
    include_str!("menu/serviceaccount.yaml"),
    include_str!("menu/lease.yaml"),
    include_str!("menu/deployment.yaml"),
    include_str!("menu/replicaset.yaml"),
    include_str!("menu/replicationcontroller.yaml"),
    include_str!("menu/statefulset.yaml"),
    include_str!("menu/daemonset.yaml"),
    include_str!("menu/job.yaml"),
    include_str!("menu/cronjob.yaml"),
    include_str!("menu/pod.yaml"),
    include_str!("menu/node.yaml"),
    include_str!("menu/role.yaml"),
    include_str!("menu/rolebinding.yaml"),
    include_str!("menu/poddisruptionbudget.yaml"),
    include_str!("menu/networkpolicy.yaml"),
    include_str!("menu/endpointslice.yaml"),
    include_str!("menu/ingress.yaml"),
    include_str!("menu/namespace.yaml"),
    include_str!("menu/widget.yaml"),
    include_str!("menu/gadget.yaml"),
    include_str!("menu/gadgetbeta.yaml"),
];

/// One served version of a kind, with its menu of fragments.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    /// `v1` or `group/version`.
    #[serde(rename = "apiVersion")]
    pub api_version: String,
    /// Kind of one object.
    pub kind: String,
    /// Plural name, as in the path.
    pub plural: String,
    /// Lives in a namespace.
    pub namespaced: bool,
    /// Serves `/status`.
    #[serde(default)]
    pub status: bool,
    /// Other subresources the run uses.
    #[serde(default)]
    pub subs: Vec<String>,
    /// Defined by a CRD.
    #[serde(default)]
    pub custom: bool,
    /// Never deleted: what deletion starts is finished by a controller that is not running.
    #[serde(default)]
    pub keep: bool,
    /// Never sent with explicit nulls in a create or an apply: its values are byte strings.
    #[serde(default)]
    pub bytes: bool,
    /// What a plain object has beside its identity.
    pub base: Value,
    /// Fragments that are mostly accepted.
    pub good: Vec<Value>,
    /// Fragments that are mostly refused.
    pub bad: Vec<Value>,
    /// The same for `/status`.
    #[serde(default)]
    pub status_good: Vec<Value>,
    /// The same for `/status`.
    #[serde(default)]
    pub status_bad: Vec<Value>,
    /// Fragments with the directives and merge keys of strategic merge patches.
    #[serde(default)]
    pub strategic: Vec<Value>,
    /// The same, mostly refused.
    #[serde(default)]
    pub strategic_bad: Vec<Value>,
    /// The same for `/status`, accepted or not.
    #[serde(default)]
    pub status_strategic: Vec<Value>,
}

/// Metadata fragments, which every kind shares.
#[derive(Clone, Debug, Deserialize)]
pub struct Metadata {
    /// Mostly accepted.
    pub good: Vec<Value>,
    /// Mostly refused.
    pub bad: Vec<Value>,
    /// With directives of strategic merge patches.
    pub strategic: Vec<Value>,
    /// The same, mostly refused.
    pub strategic_bad: Vec<Value>,
}

/// All kinds of a run.
#[derive(Clone, Debug)]
pub struct Catalog {
    /// In a fixed order: an operation names its kind by index.
    pub kinds: Vec<Kind>,
    /// Shared fragments.
    pub metadata: Metadata,
}

impl Catalog {
    /// Reads the menus that are part of this crate.
    ///
    /// # Errors
    /// A menu that is not the YAML this module expects.
    pub fn load() -> Result<Self> {
        let kinds = MENUS
            .iter()
            .map(|text| serde_saphyr::from_str::<Kind>(text).with_context(|| text[..60].to_owned()))
            .collect::<Result<_>>()?;
        let metadata = serde_saphyr::from_str(include_str!("menu/metadata.yaml"))?;
        Ok(Self { kinds, metadata })
    }

    /// The named kinds, or all when none is named.
    ///
    /// # Errors
    /// As [`Catalog::load`], or when no kind has such a name.
    pub fn of(names: &[String]) -> Result<Self> {
        let mut catalog = Self::load()?;
        catalog
            .kinds
            .retain(|kind| names.is_empty() || names.contains(&kind.label()));
        anyhow::ensure!(!catalog.kinds.is_empty(), "no kind is named {names:?}");
        Ok(catalog)
    }
}

/// The CRDs that must be served before a run.
///
/// # Errors
/// A file that is not YAML.
pub fn crds() -> Result<Vec<Value>> {
    Ok(serde_saphyr::from_str(include_str!("menu/crds.yaml"))?)
}

impl Kind {
    /// The collection's path.
    #[must_use]
    pub fn collection(&self, namespace: Option<&str>) -> String {
        let root = if self.api_version.contains('/') { "apis" } else { "api" };
        match namespace {
            Some(namespace) => {
                format!("/{root}/{}/namespaces/{namespace}/{}", self.api_version, self.plural)
            }
            None => format!("/{root}/{}/{}", self.api_version, self.plural),
        }
    }

    /// Group and plural: what versions of one kind share.
    #[must_use]
    pub fn storage(&self) -> String {
        match self.api_version.split_once('/') {
            Some((group, _)) => format!("{}.{group}", self.plural),
            None => self.plural.clone(),
        }
    }

    /// How the report names it: versions of one kind apart.
    #[must_use]
    pub fn label(&self) -> String {
        match self.api_version.rsplit_once('/') {
            Some((_, version)) if version != "v1" => format!("{}/{version}", self.kind),
            _ => self.kind.clone(),
        }
    }

    /// Identity only.
    #[must_use]
    pub fn identity(&self, namespace: Option<&str>, name: &str) -> Value {
        let mut object = json!({
            "apiVersion": self.api_version, "kind": self.kind, "metadata": {"name": name},
        });
        if let Some(namespace) = namespace {
            object["metadata"]["namespace"] = json!(namespace);
        }
        object
    }

    /// The marker object of this kind.
    #[must_use]
    pub fn barrier(&self) -> (Option<&'static str>, Value) {
        let namespace = self.namespaced.then_some(NAMESPACES[0]);
        let mut object = self.identity(namespace, BARRIER);
        overlay(&mut object, &self.base, false);
        overlay(&mut object, &json!({"metadata": {"labels": {"watched": "yes"}}}), false);
        (namespace, object)
    }
}

/// Lays a fragment over an object as a merge patch does; `nulls` keeps explicit nulls instead of
/// removing what they name.
pub fn overlay(target: &mut Value, fragment: &Value, nulls: bool) {
    let Value::Object(fields) = fragment else {
        *target = fragment.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Value::Object(object) = target else {
        return;
    };
    for (name, value) in fields {
        if !nulls && !object.contains_key(name) && says_nothing(value) {
            continue;
        }
        if value.is_null() && !nulls {
            object.remove(name);
        } else {
            overlay(object.entry(name).or_insert(Value::Null), value, nulls);
        }
    }
}

/// Nothing but nulls.
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => !fields.is_empty() && fields.values().all(says_nothing),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_menu_can_be_read() {
        let catalog = Catalog::load().expect("menus are valid");
        assert_eq!(catalog.kinds.len(), MENUS.len());
        assert_eq!(crds().expect("CRDs are valid").len(), 2);
    }

    #[test]
    fn overlay_removes_what_null_names() {
        let mut object = json!({"a": 1, "b": {"c": 2}});
        overlay(&mut object, &json!({"a": null, "b": {"d": 3}}), false);
        assert_eq!(object, json!({"b": {"c": 2, "d": 3}}));
    }
}
