//! The contract between the wire (`http`) and the verbs (`registry`): a call in, an outcome out.
//!
//! Nothing here knows HTTP headers or bodies; nothing beyond here knows URLs.

use std::collections::BTreeMap;
use std::sync::Arc;

use aplomb_apimachinery::encoded_object::EncodedObject;
use aplomb_apimachinery::resource::{Part, Resource, View};
use aplomb_apimachinery::status::ApiError;
use bytes::Bytes;
use futures::stream::BoxStream;
use serde_json::Value;

use crate::admission::Notes;

/// What a request wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    /// The name RBAC and audit use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

/// The patch formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum PatchType {
    Json,
    Merge,
    StrategicMerge,
    Apply,
}

/// How strictly unknown and duplicate fields are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// Query parameters, parsed; each verb reads those that are its own.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Options {
    pub label_selector: Option<String>,
    pub field_selector: Option<String>,
    pub resource_version: Option<String>,
    pub resource_version_match: Option<String>,
    pub limit: Option<i64>,
    pub continue_token: Option<String>,
    pub timeout_seconds: Option<i64>,
    pub allow_watch_bookmarks: bool,
    pub send_initial_events: Option<bool>,
    pub dry_run: bool,
    pub field_manager: Option<String>,
    pub field_validation: FieldValidation,
    pub force: Option<bool>,
    /// DELETE only, from the query or the body.
    pub delete: DeleteOptions,
}

/// `metav1.DeleteOptions`.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct DeleteOptions {
    pub grace_period_seconds: Option<i64>,
    pub propagation_policy: Option<String>,
    pub orphan_dependents: Option<bool>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

/// Who is asking.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    /// What else is known about the user, as a token's credential.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// One request for a resource, authenticated and authorised.
#[derive(Clone, Debug)]
pub struct Call {
    /// What to do.
    pub verb: Verb,
    /// On what.
    pub resource: Arc<Resource>,
    /// The object or its status.
    pub part: Part,
    /// The subresource the object is addressed through; then `resource` is what it shows.
    pub view: Option<Arc<dyn View>>,
    /// Namespace of the path; `None` for cluster-scoped resources and all-namespaces lists.
    pub namespace: Option<String>,
    /// Name of the path.
    pub name: Option<String>,
    /// Query parameters.
    pub options: Options,
    /// Body as sent (JSON; `http` has turned YAML into JSON).
    pub body: Bytes,
    /// For `Verb::Patch`.
    pub patch_type: Option<PatchType>,
    /// For the default field manager and the audit log.
    pub user: User,
    /// User-Agent header; up to the first `/` it is the default field manager.
    pub user_agent: String,
    /// What admission has to say besides the outcome.
    pub notes: Notes,
}

impl Call {
    /// A call of the box itself, with every right: what actors and tests use.
    #[must_use]
    pub fn new(verb: Verb, resource: Arc<Resource>) -> Self {
        Self {
            verb,
            resource,
            part: Part::Main,
            view: None,
            namespace: None,
            name: None,
            options: Options::default(),
            body: Bytes::new(),
            patch_type: None,
            user: User {
                name: "system:apiserver".into(),
                uid: String::new(),
                groups: vec!["system:masters".into()],
                ..User::default()
            },
            user_agent: "box".into(),
            notes: Notes::default(),
        }
    }

    /// Sets the namespace of the path.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Sets the name of the path.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: &Value) -> Self {
        self.body = body.to_string().into();
        self
    }

    /// Addresses `/status`.
    #[must_use]
    pub fn status(mut self) -> Self {
        self.part = Part::Status;
        self
    }

    /// Makes it a patch of a type.
    #[must_use]
    pub fn patch(mut self, patch_type: PatchType) -> Self {
        self.patch_type = Some(patch_type);
        self
    }
}

/// What a verb answers. Objects are in the served version, with apiVersion and kind.
pub enum Outcome {
    /// One object (or a Status of a deletion) and its HTTP code.
    Object {
        /// 200 or 201 (202 for a deletion that goes on).
        code: u16,
        /// The object.
        object: Arc<Value>,
        /// `Warning: 299` texts.
        warnings: Vec<String>,
    },
    /// A list; every item says what it is.
    List {
        /// `metadata.resourceVersion` of the list.
        resource_version: u64,
        /// `metadata.continue`.
        continue_token: Option<String>,
        /// `metadata.remainingItemCount`.
        remaining: Option<i64>,
        /// The objects.
        items: Vec<Arc<Value>>,
        /// `Warning: 299` texts.
        warnings: Vec<String>,
    },
    /// A stream of events.
    Watch(BoxStream<'static, WatchEvent>),
}

impl std::fmt::Debug for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Object { code, object, .. } => write!(f, "Object({code}, {object})"),
            Self::List { items, .. } => write!(f, "List({} items)", items.len()),
            Self::Watch(_) => f.write_str("Watch"),
        }
    }
}

/// One event of a watch.
#[derive(Clone, Debug)]
pub enum WatchEvent {
    /// Came into view.
    Added(Arc<EncodedObject>),
    /// Changed in view.
    Modified(Arc<EncodedObject>),
    /// Left view: deleted, or no longer selected.
    Deleted(Arc<EncodedObject>),
    /// Nothing older than this version is still to come.
    Bookmark(Value),
    /// The last event: a Status.
    Error(ApiError),
}
