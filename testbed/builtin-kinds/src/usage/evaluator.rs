//! How objects of a resource are counted: which names of a quota are about them, what one of them
//! uses, and which requests can change it.

use aplomb_apimachinery::status::GroupResource;
use serde_json::Value;

use super::super::quantity::Quantity;
use super::amounts::{Amounts, only};
use super::{QuotaRequest, QuotaSurroundings, claims, devices, pods, scopes, services};

/// Answers that are not stored, and events, which were never counted.
const IGNORED: [(&str, &str); 10] = [
    ("", "bindings"),
    ("", "componentstatuses"),
    ("", "events"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("events.k8s.io", "events"),
];
/// These had a name of their own before everything could be counted.
const OLD_NAMES: [&str; 4] = ["configmaps", "replicationcontrollers", "resourcequotas", "secrets"];

/// How one resource is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evaluator {
    Pods,
    Services,
    VolumeClaims,
    DeviceClaims,
    /// By number, under these names.
    Objects(Vec<String>),
}

impl Evaluator {
    /// That of a resource, unless it is not counted at all.
    pub fn of(resource: &GroupResource) -> Option<Self> {
        let place = (resource.group.as_str(), resource.resource.as_str());
        match place {
            place if IGNORED.contains(&place) => None,
            ("", "pods") => Some(Self::Pods),
            ("", "services") => Some(Self::Services),
            ("", "persistentvolumeclaims") => Some(Self::VolumeClaims),
            ("resource.k8s.io", "resourceclaims") => Some(Self::DeviceClaims),
            (group, plural) => {
                let mut names = vec![format!("count/{resource}")];
                if group.is_empty() && OLD_NAMES.contains(&plural) {
                    names.push(plural.to_owned());
                }
                Some(Self::Objects(names))
            }
        }
    }

    /// Whether a request can change what is used.
    pub fn handles(&self, asked: &QuotaRequest<'_>) -> bool {
        let (creates, main) = (asked.old.is_none(), asked.subresource.is_empty());
        match self {
            Self::Pods => match asked.old {
                Some(_) if asked.subresource == "resize" => true,
                Some(old) => main && scopes::has_deadline(old) != scopes::has_deadline(asked.object),
                None => main,
            },
            // The server compares addresses here, so every change of a status counts.
            Self::VolumeClaims => main || asked.subresource == "status",
            Self::Services | Self::DeviceClaims => main,
            Self::Objects(_) => creates && main,
        }
    }

    /// Those of the amounts of a quota that are about these objects.
    pub(super) fn matching(&self, hard: &Amounts, around: &QuotaSurroundings<'_>) -> Amounts {
        only(hard, |name| match self {
            Self::Pods => pods::counts(name),
            Self::Services => services::NAMES.contains(&name),
            Self::VolumeClaims => claims::counts(name),
            Self::DeviceClaims => devices::counts(name, around.peers),
            Self::Objects(names) => names.iter().any(|it| it == name),
        })
    }

    /// Whether an object is in all scopes of a quota.
    pub(super) fn is_covered(&self, quota: &Value, object: &Value) -> bool {
        scopes::covers(quota, |scope| match self {
            Self::Pods => scopes::has_pod(scope, object),
            Self::VolumeClaims => scopes::has_claim(scope, object),
            Self::Services | Self::DeviceClaims | Self::Objects(_) => false,
        })
    }

    /// What one object uses.
    pub(super) fn usage(&self, object: &Value, around: &QuotaSurroundings<'_>) -> Amounts {
        match self {
            Self::Pods => pods::usage(object, around.now),
            Self::Services => services::usage(object),
            Self::VolumeClaims => claims::usage(object),
            Self::DeviceClaims => devices::usage(object, around.peers),
            Self::Objects(names) => {
                let one = |name: &String| (name.clone(), Quantity::count(1));
                names.iter().map(one).collect()
            }
        }
    }

    /// Why an object cannot be counted.
    pub(super) fn missing(&self, object: &Value, counted: &Amounts) -> Option<String> {
        match self {
            Self::Pods => pods::missing(object, counted),
            _ => None,
        }
    }
}
