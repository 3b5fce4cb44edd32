//! The owners of fields, from `metadata.managedFields`.
//!
//! The server keeps the set of fields of every manager. From those sets
//! alone, without the schema of the kind, this module distinguishes our own changes from those of other
//! writers. It reads objects and never makes a request.

mod change;
mod fields;

use serde_json::Value;

pub use self::change::{ObjectPart, is_foreign_change, is_foreign_change_excluding};
pub use self::fields::FieldSet;
pub(crate) use self::fields::{FieldStep, ItemKey};

/// The fields that `manager` owns because it applied them, through `subresource` or the object
/// itself. `None` if it has applied nothing there, or if the entry is unreadable.
#[must_use]
pub fn owned_fields(object: &Value, manager: &str, subresource: Option<&str>) -> Option<FieldSet> {
    applied_entry(object, manager, subresource).and_then(|entry| FieldSet::parse(entry.get("fieldsV1")?))
}

/// The apply entry of `manager`.
pub(crate) fn applied_entry<'a>(object: &'a Value, manager: &str, subresource: Option<&str>) -> Option<&'a Value> {
    entries(object).iter().find(|entry| {
        entry_text(entry, "manager") == manager
            && entry_text(entry, "operation") == "Apply"
            && entry_text(entry, "subresource") == subresource.unwrap_or_default()
    })
}

/// Whether `manager` owns any field of `object` outside its subresources, by any kind of write.
pub(crate) fn has_fields(object: &Value, manager: &str) -> bool {
    let main = |entry: &Value| entry_text(entry, "subresource").is_empty();
    written_by(object, manager).any(main)
}

/// The entries of all writes of `manager`.
pub(crate) fn written_by<'a>(object: &'a Value, manager: &str) -> impl Iterator<Item = &'a Value> {
    let by = move |entry: &&Value| entry_text(entry, "manager") == manager;
    entries(object).iter().filter(by)
}

/// Whether `object` has a finalizer that `manager` has added.
pub(crate) fn has_finalizer_of(object: &Value, manager: &str) -> bool {
    let names = object["metadata"]["finalizers"].as_array();
    let mut names = names.into_iter().flatten();
    names.any(|name| {
        let member = format!("v:{name}");
        let added = |entry: &Value| {
            let owned = &entry["fieldsV1"]["f:metadata"]["f:finalizers"];
            owned.get(&member).is_some()
        };
        written_by(object, manager).any(added)
    })
}

/// The combined fields of every entry other than that of [`applied_entry`]; `None` if one of them
/// is unreadable.
pub(crate) fn owned_by_others(object: &Value, manager: &str, subresource: Option<&str>) -> Option<FieldSet> {
    let applied = applied_entry(object, manager, subresource);
    let is_applied = |entry: &Value| applied.is_some_and(|applied| std::ptr::eq(applied, entry));
    union(entries(object).iter().filter(|entry| !is_applied(entry)))
}

/// The manager other than `ours` that wrote last: the winner, if a write of ours lost.
#[must_use]
pub fn newest_foreign_manager(object: &Value, ours: &str) -> Option<String> {
    entries(object)
        .iter()
        .filter(|entry| entry_text(entry, "manager") != ours)
        // Times are whole seconds in one format, so they compare as text; of equal times the last wins.
        .max_by_key(|entry| entry_text(entry, "time"))
        .map(|entry| entry_text(entry, "manager").to_owned())
}

/// The entries of `metadata.managedFields`.
fn entries(object: &Value) -> &[Value] {
    object["metadata"]["managedFields"]
        .as_array()
        .map_or(&[], Vec::as_slice)
}

fn entry_text<'a>(entry: &'a Value, member: &str) -> &'a str {
    entry.get(member).and_then(Value::as_str).unwrap_or_default()
}

fn union<'a>(entries: impl Iterator<Item = &'a Value>) -> Option<FieldSet> {
    let mut all = FieldSet::default();
    for entry in entries {
        if let Some(fields) = entry.get("fieldsV1") {
            all.merge(FieldSet::parse(fields)?);
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(manager: &str, time: &str) -> Value {
        json!({"manager": manager, "operation": "Update", "time": time, "fieldsV1": {"f:data": {}}})
    }

    #[test]
    fn newest_foreign_entry_wins() {
        let object = json!({"metadata": {"managedFields": [
            entry("kubectl", "2026-01-01T00:00:05Z"),
            entry("other", "2026-01-01T00:00:07Z"),
            entry("ours", "2026-01-01T00:00:09Z"),
        ]}});
        assert_eq!(newest_foreign_manager(&object, "ours").as_deref(), Some("other"));
        assert_eq!(newest_foreign_manager(&json!({}), "ours"), None);
    }

    #[test]
    fn a_finalizer_is_of_the_manager_that_added_it() {
        let object = json!({"metadata": {
            "finalizers": ["a.example.com/x", "b.example.com/y"],
            "managedFields": [
                {"manager": "ours", "operation": "Update",
                    "fieldsV1": {"f:metadata": {"f:finalizers": {".": {}, "v:\"a.example.com/x\"": {}}}}},
                {"manager": "late", "operation": "Update",
                    "fieldsV1": {"f:metadata": {"f:finalizers": {"v:\"c.example.com/z\"": {}}}}},
            ],
        }});
        assert!(has_finalizer_of(&object, "ours"));
        assert!(!has_finalizer_of(&object, "late"), "the finalizer was removed");
        assert!(!has_finalizer_of(&object, "others"));
    }

    #[test]
    fn applied_fields_are_distinguished_from_updated_fields() {
        let object = json!({"metadata": {"managedFields": [
            {"manager": "ours", "operation": "Update", "fieldsV1": {"f:metadata": {"f:finalizers": {}}}},
            {"manager": "ours", "operation": "Apply", "fieldsV1": {"f:data": {"f:a": {}}}},
            {"manager": "ours", "operation": "Apply", "subresource": "status", "fieldsV1": {"f:status": {}}},
        ]}});
        let main = owned_fields(&object, "ours", None).expect("an entry");
        assert!(main.child(&FieldStep::field("data")).is_some());
        assert!(main.child(&FieldStep::field("metadata")).is_none());
        let status = owned_fields(&object, "ours", Some("status")).expect("an entry");
        assert!(status.child(&FieldStep::field("status")).is_some());
        let rest = owned_by_others(&object, "ours", None).expect("readable");
        assert!(rest.child(&FieldStep::field("metadata")).is_some());
        assert!(rest.child(&FieldStep::field("data")).is_none());
    }
}
