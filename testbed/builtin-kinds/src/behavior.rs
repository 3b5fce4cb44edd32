//! What one built-in kind does differently from the others: a table of functions and facts.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::resource::{Part, RowOrder};
use aplomb_apimachinery::validation;
use jiff::Timestamp;
use serde_json::Value;

use super::print;

/// What `/status` may not change of kinds where it may change nothing but the status.
pub(super) const SPEC_AND_METADATA: &[&[&str]] = &[
    &["spec"],
    &["metadata", "labels"],
    &["metadata", "annotations"],
    &["metadata", "finalizers"],
    &["metadata", "ownerReferences"],
];

/// A kind's own rules. [`KindBehavior::PLAIN`] is a kind that has none.
#[derive(Debug)]
pub(super) struct KindBehavior {
    /// Fills in defaults.
    pub(super) default: fn(&mut Value),
    /// Fills in what follows from what `prepare_create` added; the store does not have it.
    pub(super) default_stored: Option<fn(&mut Value)>,
    /// After `status` was cleared and the generation set.
    pub(super) prepare_create: fn(&mut Value),
    /// After what the part may not change was restored and before the generation moves.
    pub(super) prepare_update: fn(&mut Value, &Value, Part),
    /// After the generation has moved: what counts as a change and is not kept.
    pub(super) drop_changed: fn(&mut Value),
    /// What is wrong with an object, new or changed.
    pub(super) validate: fn(&Value) -> Vec<FieldError>,
    /// What is wrong with a change besides; runs before `validate` on the main part and alone on
    /// `/status`.
    pub(super) validate_update: fn(&Value, &Value, Part) -> Vec<FieldError>,
    /// Whether `validate` runs on updates of the main part too.
    pub(super) validates_updates: bool,
    /// Rule for `metadata.name`.
    pub(super) name: fn(&str, bool) -> Vec<String>,
    /// A PUT may leave out the version.
    pub(super) unconditional: bool,
    /// A PUT to a missing name creates.
    pub(super) create_on_update: bool,
    /// Paths whose change moves the generation; a kind without any has no generation.
    pub(super) generation: &'static [&'static [&'static str]],
    /// The generation is set by the first change, not at creation.
    pub(super) starts_without_generation: bool,
    /// Keeps the status a client sends at creation.
    pub(super) keeps_status: bool,
    /// What `/status` may not change.
    pub(super) fixed_by_status: &'static [&'static [&'static str]],
    /// What no manager owns through `/status`, where that is more than `fixed_by_status`.
    pub(super) unowned_by_status: &'static [&'static [&'static str]],
    /// What no manager owns through the main part, where that is more than `status`.
    pub(super) unowned_by_main: &'static [&'static [&'static str]],
    /// Field selectors.
    pub(super) selectable: fn(&Value) -> Vec<(String, String)>,
    /// What the server says to a field that cannot be selected by, after the field's place.
    pub(super) unknown_label: fn(&str) -> String,
    /// The objects of a kind that is never stored.
    pub(super) observed: Option<fn() -> Vec<Value>>,
    /// Table cells.
    pub(super) cells: fn(&Value, Timestamp) -> Vec<Value>,
    /// The order of a Table's rows, where it is not that of the list.
    pub(super) row_order: Option<RowOrder>,
    /// What a row of a Table says besides its cells.
    pub(super) row_conditions: fn(&Value) -> Option<Value>,
    /// Annotations that stand for what the server's own form of the object has as fields.
    pub(super) versioned_annotations: &'static [&'static str],
    /// Warnings for a new object.
    pub(super) warnings: fn(&Value) -> Vec<String>,
    /// Warnings for a change, when they are not those of a new object.
    pub(super) update_warnings: fn(&Value, &Value) -> Vec<String>,
}

impl KindBehavior {
    /// A kind without defaults, without rules and with a DNS subdomain for a name.
    pub(super) const PLAIN: Self = Self {
        default: |_| {},
        default_stored: None,
        prepare_create: |_| {},
        prepare_update: |_, _, _| {},
        drop_changed: |_| {},
        validate: |_| Vec::new(),
        validate_update: |_, _, _| Vec::new(),
        validates_updates: true,
        name: validation::dns_subdomain,
        unconditional: true,
        create_on_update: false,
        generation: &[],
        starts_without_generation: false,
        keeps_status: false,
        fixed_by_status: &[&["spec"]],
        unowned_by_status: &[],
        unowned_by_main: &[],
        selectable: |_| Vec::new(),
        unknown_label: |field| format!("field label not supported: {field}"),
        observed: None,
        cells: print::name_and_age,
        row_order: None,
        row_conditions: |_| None,
        versioned_annotations: &[],
        warnings: |_| Vec::new(),
        update_warnings: |_, _| Vec::new(),
    };
}
