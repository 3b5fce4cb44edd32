//! Subresources other than `/status`: other views of an object and things done to it, each with
//! rules of its own.
//!
//! URLs and headers are the business of `http`; `registry` knows only objects, their status and views.

mod approval;
mod binding;
mod budget;
mod ephemeral;
mod eviction;
pub mod finalize;
mod resize;
pub mod scale;
mod scale_owners;
mod scale_view;
mod token;
mod whole;

use std::sync::Arc;

use aplomb_apimachinery::resource::{Resource, View};
use aplomb_apimachinery::status::ApiError;
use aplomb_builtin_kinds::{self as kinds, Subkind};
use serde_json::{Value, json};

use crate::call::{Call, Outcome, Verb};
use crate::server::ApiServer;

/// A subresource of a built-in kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Subresource {
    Scale,
    Eviction,
    Binding,
    EphemeralContainers,
    Resize,
    Approval,
    Token,
}

impl Subresource {
    /// The subresource `name` of a resource, if the box serves it here.
    #[must_use]
    pub fn find(resource: &Resource, name: &str) -> Option<Self> {
        let scales = ["deployments", "replicasets", "statefulsets"];
        match (resource.group.as_str(), resource.plural.as_str(), name) {
            ("apps", plural, "scale") if scales.contains(&plural) => Some(Self::Scale),
            ("", "replicationcontrollers", "scale") => Some(Self::Scale),
            ("", "pods", "eviction") => Some(Self::Eviction),
            ("", "pods", "binding") => Some(Self::Binding),
            ("", "pods", "ephemeralcontainers") => Some(Self::EphemeralContainers),
            ("", "pods", "resize") => Some(Self::Resize),
            ("", "serviceaccounts", "token") => Some(Self::Token),
            ("certificates.k8s.io", "certificatesigningrequests", "approval") => Some(Self::Approval),
            _ => None,
        }
    }

    /// Whether a verb is served.
    #[must_use]
    pub fn serves(self, verb: Verb) -> bool {
        match self {
            Self::Eviction | Self::Binding | Self::Token => verb == Verb::Create,
            _ => matches!(verb, Verb::Get | Verb::Update | Verb::Patch),
        }
    }

    /// What bodies and answers are, when that is not the object itself.
    fn kind(self) -> Option<Subkind> {
        match self {
            Self::Scale => Some(Subkind::Scale),
            Self::Eviction => Some(Subkind::Eviction),
            Self::Binding => Some(Subkind::Binding),
            Self::Token => Some(Subkind::TokenRequest),
            Self::EphemeralContainers | Self::Resize | Self::Approval => None,
        }
    }

    /// The resource that bodies and answers are objects of.
    #[must_use]
    pub fn shows(self, parent: &Arc<Resource>) -> Arc<Resource> {
        self.kind().map_or_else(|| parent.clone(), kinds::subkind)
    }

    fn view(self, parent: &Arc<Resource>) -> Option<Arc<dyn View>> {
        let parent = parent.clone();
        match self {
            Self::Scale => Some(Arc::new(scale_view::ScaleView { parent })),
            Self::EphemeralContainers => Some(Arc::new(ephemeral::EphemeralContainers { parent })),
            Self::Resize => Some(Arc::new(resize::Resize { parent })),
            Self::Approval => Some(Arc::new(approval::Approval { parent })),
            Self::Eviction | Self::Binding | Self::Token => None,
        }
    }
}

/// Carries out a call on a subresource; `call.resource` is the resource it belongs to.
///
/// # Errors
/// What the server answers instead of the outcome.
pub async fn handle(server: &ApiServer, sub: Subresource, call: Call) -> Result<Outcome, ApiError> {
    let parent = call.resource.clone();
    let shown = Call {
        resource: sub.shows(&parent),
        view: sub.view(&parent),
        ..call.clone()
    };
    match sub {
        Subresource::Eviction => eviction::evict(server, &shown, &parent).await,
        Subresource::Binding => binding::bind(server, &shown, &parent),
        Subresource::Token => token::request(server, &shown),
        _ => server.call(shown).await,
    }
}

/// The Status a subresource that only acts answers with.
fn done(warnings: Vec<String>) -> Outcome {
    Outcome::Object {
        code: 201,
        object: json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
        })
        .into(),
        warnings,
    }
}

/// The condition of this type in `status.conditions`, made if need be, with its place.
fn condition<'a>(object: &'a mut Value, kind: &str) -> &'a mut Value {
    if !object["status"].is_object() {
        object["status"] = json!({});
    }
    let conditions = &mut object["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let list = conditions.as_array().map_or(&[][..], Vec::as_slice);
    let found = list.iter().position(|condition| condition["type"] == kind);
    let at = found.unwrap_or(list.len());
    if let (None, Some(list)) = (found, conditions.as_array_mut()) {
        list.push(json!({ "type": kind }));
    }
    &mut conditions[at]
}
