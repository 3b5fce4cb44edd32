//! What the box serves: a resource, and the strategy that says how objects of it behave.
//!
//! The verbs in `registry` know nothing about kinds; everything a kind does differently is behind
//! [`Strategy`]. Custom resources and the built-in kinds implement it.

use std::fmt::Debug;
use std::sync::Arc;

use serde_json::Value;

use crate::field::FieldError;
use crate::status::{ApiError, GroupResource};

/// One served version of a resource.
#[derive(Clone, Debug)]
pub struct Resource {
    /// API group; empty for the core group.
    pub group: String,
    /// API version, `v1`.
    pub version: String,
    /// Plural name, as in the path.
    pub plural: String,
    /// Singular name.
    pub singular: String,
    /// Kind of one object.
    pub kind: String,
    /// Kind of a list.
    pub list_kind: String,
    /// Short names kubectl accepts.
    pub short_names: Vec<String>,
    /// Categories, `all` among them.
    pub categories: Vec<String>,
    /// Lives in a namespace.
    pub namespaced: bool,
    /// Serves `/status`.
    pub has_status: bool,
    /// Verbs as discovery lists them; empty means the usual eight.
    pub verbs: Vec<String>,
    /// Where objects are kept: versions of one resource, and both `events`, share a place.
    pub storage: GroupResource,
    /// Behaviour.
    pub strategy: Arc<dyn Strategy>,
}

impl Resource {
    /// Group and plural, as error messages name it.
    #[must_use]
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.group, &self.plural)
    }

    /// Group and kind, as validation messages name it.
    #[must_use]
    pub fn group_kind(&self) -> GroupResource {
        // Both forms of an event are checked as the one that is stored.
        GroupResource::new(&self.storage.group, &self.kind)
    }

    /// Group and kind as a refusal of `object` names them: a custom resource is what it says it is.
    #[must_use]
    pub fn group_kind_of(&self, object: &Value) -> GroupResource {
        if !self.strategy.is_custom() {
            return self.group_kind();
        }
        let said = |key: &str| object[key].as_str().unwrap_or_default();
        let group = said("apiVersion").split_once('/').map_or("", |(group, _)| group);
        GroupResource::new(group, said("kind"))
    }

    /// `v1` or `group/version`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

/// Which part of an object a request addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The object itself.
    Main,
    /// `/status`.
    Status,
}

/// A subresource that shows part of an object, maybe as an object of another kind (`/scale`), and
/// takes it back changed.
pub trait View: Send + Sync + Debug {
    /// The last part of the path.
    fn name(&self) -> &'static str;

    /// The resource whose objects are shown.
    fn parent(&self) -> &Arc<Resource>;

    /// What is shown of an object, owners of fields included: all of it, unless a view says otherwise.
    ///
    /// # Errors
    /// The server's answer when the object cannot be shown so.
    fn show(&self, object: &Value) -> Result<Value, ApiError> {
        Ok(object.clone())
    }

    /// The object with what was shown of it changed. `now` is for what changes leave a time of.
    ///
    /// # Errors
    /// The server's answer to a change that is not allowed.
    fn take_back(&self, object: &Value, shown: Value, now: &str) -> Result<Value, ApiError>;

    /// Whether changes are made by the rules of the object's kind, and not by the view's own.
    fn by_rules_of_kind(&self) -> bool {
        false
    }
}

/// A request body read as an object of a kind.
#[derive(Clone, Debug)]
pub struct Decoded {
    /// Unknown fields already gone (unless the schema preserves them).
    pub object: Value,
    /// `unknown field "spec.x"`: warned about or refused, as `fieldValidation` says.
    pub unknown: Vec<String>,
}

/// An order of a Table's rows.
pub type RowOrder = fn(&Value, &Value) -> std::cmp::Ordering;

/// One column of a Table.
#[derive(Clone, Debug)]
pub struct Column {
    /// Header.
    pub name: String,
    /// OpenAPI type.
    pub kind: String,
    /// OpenAPI format.
    pub format: String,
    /// Shown by `kubectl explain` and in the Table definition.
    pub description: String,
    /// 0 is always shown, higher only with `-o wide`.
    pub priority: i32,
}

/// What a strategic merge patch has to know about one place of an object: the Go type there, and how
/// each of its members is patched.
pub trait PatchMeta: Debug {
    /// Go's word for the type: `struct`, `map`, `slice`, `string`.
    fn kind(&self) -> &'static str;

    /// The member called `key`.
    ///
    /// # Errors
    /// Go's message when the type has no such member.
    fn member(&self, key: &str) -> Result<PatchMember<'_>, String>;

    /// What is in the list; `None` when the place is no list.
    fn items(&self) -> Option<Box<dyn PatchMeta + '_>>;
}

/// How one member is patched.
#[derive(Debug)]
pub struct PatchMember<'a> {
    /// `merge`, `replace`, `retainKeys`, or some of them with commas between; empty for none.
    pub strategy: String,
    /// What tells the items of a merged list apart; empty for none.
    pub merge_key: String,
    /// What is in the member.
    pub of: Box<dyn PatchMeta + 'a>,
}

/// How objects of one served version behave. Everything here is pure: no IO, no clock.
///
/// Order of calls on create: `decode`, `default`, metadata filled, `prepare_create`, field
/// managers, `validate_create`. On update: `decode`, `default`, `prepare_update`, field managers,
/// `validate_update`.
pub trait Strategy: Send + Sync + Debug {
    /// Reads a body as this kind: wrong JSON types are a 400, unknown fields are listed.
    ///
    /// # Errors
    /// The server's answer to a body that is not an object of this kind.
    fn decode(&self, body: Value) -> Result<Decoded, ApiError>;

    /// Reads what an apply merged, which is refused in other words than a body is.
    ///
    /// # Errors
    /// The server's answer to a merged object that is not an object of this kind.
    fn convert(&self, merged: Value) -> Result<Value, ApiError> {
        self.decode(merged).map(|decoded| decoded.object)
    }

    /// How a strategic merge patch sees objects of this kind; `None` where the server takes none.
    fn patch_meta(&self) -> Option<Box<dyn PatchMeta + '_>> {
        None
    }

    /// Reads what a strategic merge made, which is refused in yet other words.
    ///
    /// # Errors
    /// Why the merged object is not an object of this kind.
    fn convert_patched(&self, merged: Value) -> Result<Decoded, String> {
        self.decode(merged).map_err(|error| error.message)
    }

    /// Fills in defaults.
    fn default(&self, object: &mut Value);

    /// Drops what a client may not set at creation (status, generation) and sets what it may not
    /// leave out.
    fn prepare_create(&self, object: &mut Value);

    /// The same for an update: restores from `old` what `part` may not change and moves
    /// `metadata.generation` when the kind has one.
    fn prepare_update(&self, object: &mut Value, old: &Value, part: Part);

    /// Everything wrong with a new object but its metadata, which `registry` checks.
    fn validate_create(&self, object: &Value) -> Vec<FieldError>;

    /// Everything wrong with a change.
    fn validate_update(&self, object: &Value, old: &Value, part: Part) -> Vec<FieldError>;

    /// Whether a PUT may leave out `metadata.resourceVersion`.
    fn allow_unconditional_update(&self) -> bool;

    /// Whether a PUT to a name that does not exist creates the object.
    fn allow_create_on_update(&self) -> bool {
        false
    }

    /// Seconds an object stays after a DELETE that asked for `requested`; `None` for the kinds that
    /// go at once (all but pods).
    fn grace_period(&self, _object: &Value, _requested: Option<i64>) -> Option<i64> {
        None
    }

    /// Gives out what must be unique among `peers`, all stored objects of the resource (the cluster
    /// addresses and node ports of services). Called on create and update, dry or not, after defaults
    /// and before `prepare_create` or `prepare_update`, with nothing able to be written in between.
    ///
    /// # Errors
    /// The server's answer when what the object asks for is taken.
    fn allocate(
        &self,
        _object: &mut Value,
        _old: Option<&Value>,
        _peers: &[Arc<Value>],
        _dry_run: bool,
    ) -> Result<(), ApiError> {
        Ok(())
    }

    /// Whether answers (but not watch events) show objects otherwise than they are kept.
    fn shows_otherwise(&self) -> bool {
        false
    }

    /// Makes an object look as answers show it.
    fn show(&self, _object: &mut Value) {}

    /// Whether the items of a list come without `apiVersion` and `kind`, as those of typed kinds do.
    fn bare_list_items(&self) -> bool {
        false
    }

    /// Whether a valid `metadata.name` is more restricted or freer than a DNS subdomain; the
    /// server's message for a bad one.
    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String>;

    /// The schema in OpenAPI v3 form with its `x-kubernetes-*` extensions and `$ref`s resolved:
    /// what field management and the published OpenAPI are built from.
    fn openapi(&self) -> &Value;

    /// Paths no manager can own through `part` (`["spec"]` through `/status`).
    fn reset_fields(&self, part: Part) -> Vec<Vec<String>>;

    /// Field-selector keys besides `metadata.name` and `metadata.namespace`, with their value; asked
    /// with `null` it still names every key.
    fn selectable_fields(&self, object: &Value) -> Vec<(String, String)>;

    /// Whether this is a custom resource; the server answers a few mistakes differently for those.
    fn is_custom(&self) -> bool {
        false
    }

    /// The server's message for a field selector on a field that cannot be selected by.
    fn unknown_field_label(&self, field: &str) -> String {
        if self.is_custom() {
            return format!("field label not supported: {field}");
        }
        let field = crate::field::go_quote(field);
        format!("{field} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    }

    /// Warnings for a write (unqualified finalizers and such are `registry`'s business).
    fn warnings(&self, _object: &Value) -> Vec<String> {
        Vec::new()
    }

    /// The same for a change.
    fn update_warnings(&self, object: &Value, _old: &Value) -> Vec<String> {
        self.warnings(object)
    }

    /// From the stored form to this served version. The stored form is what `to_storage` returns.
    #[allow(clippy::wrong_self_convention, reason = "the counterpart of to_storage")]
    fn from_storage(&self, stored: Value) -> Value {
        stored
    }

    /// Whether `from_storage` gives back what it is given: then nobody has to copy it.
    fn serves_stored_form(&self) -> bool {
        false
    }

    /// From this served version to the stored form.
    fn to_storage(&self, object: Value) -> Value {
        object
    }

    /// What a row of a Table says of its object besides the cells.
    fn row_conditions(&self, _object: &Value) -> Option<Value> {
        None
    }

    /// Annotations only the versioned form of an object has: metadata on its own is without them.
    fn versioned_annotations(&self) -> &'static [&'static str] {
        &[]
    }

    /// The objects of a kind that is never stored: what the server finds when it looks.
    fn observed(&self) -> Option<Vec<Value>> {
        None
    }

    /// Table columns.
    fn columns(&self) -> Vec<Column>;

    /// The cells of one object, in the order of `columns`. `now` is for ages.
    fn cells(&self, object: &Value, now: jiff::Timestamp) -> Vec<Value>;

    /// How the rows of a Table are ordered, where that is not the order of the list.
    fn row_order(&self) -> Option<RowOrder> {
        None
    }
}
