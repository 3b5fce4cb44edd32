//! JSON patch and merge patch as the server's library understands them, which is not quite what
//! the RFCs say: a `replace` may name a missing field, an index may count from the end, and a merge
//! removes nulls inside lists too.
//!
//! Nothing here knows requests or kinds.

use serde_json::{Map, Value};

use aplomb_apimachinery::json;

/// All copies of one patch together may not add more than this many bytes.
const MAX_COPIED: usize = 3 * 1024 * 1024;

/// Lays a merge patch over a document.
pub(super) fn merge(document: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (name, value) in patch {
        if value.is_null() {
            document.remove(name);
            continue;
        }
        match (document.get_mut(name), value) {
            (Some(Value::Object(current)), Value::Object(inner)) => merge(current, inner),
            (Some(Value::Object(_)), _) => {
                document.insert(name.clone(), value.clone());
            }
            _ => {
                let mut value = value.clone();
                prune_nulls(&mut value);
                document.insert(name.clone(), value);
            }
        }
    }
}

fn prune_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, inner| !inner.is_null());
            fields.values_mut().for_each(prune_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(prune_nulls),
        _ => {}
    }
}

/// A JSON patch on its way through its operations.
pub(super) struct JsonPatch<'a> {
    document: Value,
    copied: usize,
    /// The patch as sent: whether a text in it is escaped decides a `test`.
    body: &'a [u8],
}

impl<'a> JsonPatch<'a> {
    /// A patch of a document.
    pub(super) fn new(document: Value, body: &'a [u8]) -> Self {
        Self {
            document,
            copied: 0,
            body,
        }
    }

    /// The document after all operations; `None` when one of them fails.
    pub(super) fn apply(mut self, operations: &[Value]) -> Option<Value> {
        for operation in operations {
            self.step(operation.as_object()?)?;
        }
        Some(self.document)
    }

    fn step(&mut self, operation: &Map<String, Value>) -> Option<()> {
        let text = |member: &str| operation.get(member).and_then(Value::as_str);
        let value = || operation.get("value").cloned().unwrap_or(Value::Null);
        match text("op")? {
            "add" => self.put(text("path")?, value()),
            "remove" => self.container(text("path")?)?.remove().map(drop),
            "replace" if text("path")?.is_empty() => {
                self.document = Some(value()).filter(|it| it.is_object() || it.is_array())?;
                Some(())
            }
            "replace" => {
                let (path, value) = (text("path")?, value());
                fits(path, &value)?;
                self.container(path)?.replace(value)
            }
            "move" => {
                let moved = self.container(text("from")?)?.remove()?;
                self.put(text("path")?, moved)
            }
            "copy" => {
                let copy = self.container(text("from")?)?.get()?;
                self.copied += copy.to_string().len();
                if self.copied > MAX_COPIED {
                    return None;
                }
                self.put(text("path")?, copy)
            }
            "test" => self.test(text("path")?, &value()),
            _ => None,
        }
    }

    fn put(&mut self, path: &str, value: Value) -> Option<()> {
        fits(path, &value)?;
        self.container(path)?.add(value)
    }

    fn test(&mut self, path: &str, value: &Value) -> Option<()> {
        let found = if path.is_empty() {
            self.document.clone()
        } else {
            self.container(path)?.get()?
        };
        (found == *value && !self.written_differently(value)).then_some(())
    }

    /// Texts are compared as written, and the server writes `<`, `>` and `&` escaped.
    fn written_differently(&self, value: &Value) -> bool {
        let special = |text: &[u8]| text.iter().any(|byte| matches!(byte, b'<' | b'>' | b'&'));
        special(value.to_string().as_bytes()) && special(self.body)
    }

    /// What holds the last segment of a path. A first segment that is not empty is ignored.
    fn container(&mut self, path: &str) -> Option<Place<'_>> {
        let mut segments = path.split('/').skip(1).map(decode).peekable();
        let mut at = &mut self.document;
        loop {
            let key = segments.next()?;
            if segments.peek().is_none() {
                let fits = at.is_object() || at.is_array();
                return fits.then_some(Place { holder: at, key });
            }
            at = match at {
                Value::Object(fields) => fields.get_mut(&key)?,
                Value::Array(items) => {
                    let index = index(&key, items.len())?;
                    items.get_mut(index)?
                }
                _ => return None,
            };
        }
    }
}

/// Operations may not nest a document deeper than one could be sent.
fn fits(path: &str, value: &Value) -> Option<()> {
    (path.matches('/').count() + json::depth(value) <= json::DEEPEST).then_some(())
}

struct Place<'a> {
    holder: &'a mut Value,
    key: String,
}

impl Place<'_> {
    /// What is there; a missing field is null.
    fn get(&self) -> Option<Value> {
        match &*self.holder {
            Value::Object(fields) => Some(fields.get(&self.key).cloned().unwrap_or(Value::Null)),
            Value::Array(items) => items.get(index(&self.key, items.len())?).cloned(),
            _ => None,
        }
    }

    fn add(self, value: Value) -> Option<()> {
        match self.holder {
            Value::Object(fields) => {
                fields.insert(self.key, value);
            }
            Value::Array(items) if self.key == "-" => items.push(value),
            Value::Array(items) => {
                let at = index(&self.key, items.len() + 1)?;
                items.insert(at, value);
            }
            _ => return None,
        }
        Some(())
    }

    fn replace(self, value: Value) -> Option<()> {
        match self.holder {
            Value::Object(fields) => {
                fields.insert(self.key, value);
            }
            Value::Array(items) => {
                let at = index(&self.key, items.len())?;
                *items.get_mut(at)? = value;
            }
            _ => return None,
        }
        Some(())
    }

    fn remove(self) -> Option<Value> {
        match self.holder {
            Value::Object(fields) => fields.remove(&self.key),
            Value::Array(items) => {
                let at = index(&self.key, items.len())?;
                Some(items.remove(at))
            }
            _ => None,
        }
    }
}

/// An index into a list; a negative one counts from its end.
fn index(key: &str, length: usize) -> Option<usize> {
    let index: i64 = key.parse().ok()?;
    let length = i64::try_from(length).ok()?;
    let index = if index < 0 { index + length } else { index };
    (0..length).contains(&index).then_some(index.unsigned_abs() as usize)
}

fn decode(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patched(document: Value, operations: &Value) -> Option<Value> {
        let body = operations.to_string();
        JsonPatch::new(document, body.as_bytes()).apply(operations.as_array()?)
    }

    #[test]
    fn replace_and_copy_take_a_missing_field() {
        let steps = json!([
            {"op": "replace", "path": "/a", "value": 1},
            {"op": "copy", "from": "/none", "path": "/b"},
        ]);
        assert_eq!(patched(json!({}), &steps), Some(json!({"a": 1, "b": null})));
    }

    #[test]
    fn remove_needs_something_to_remove() {
        let steps = json!([{"op": "remove", "path": "/a"}]);
        assert_eq!(patched(json!({"b": 1}), &steps), None);
    }

    #[test]
    fn a_list_counts_from_both_ends_and_has_no_gaps() {
        let add = |path: &str| {
            let steps = json!([{"op": "add", "path": path, "value": 9}]);
            patched(json!({"l": [1, 2]}), &steps)
        };
        assert_eq!(add("/l/-"), Some(json!({"l": [1, 2, 9]})));
        assert_eq!(add("/l/-1"), Some(json!({"l": [1, 2, 9]})));
        assert_eq!(add("/l/0"), Some(json!({"l": [9, 1, 2]})));
        assert_eq!(add("/l/3"), None);
    }

    #[test]
    fn a_test_for_null_passes_where_nothing_is() {
        let steps = json!([{"op": "test", "path": "/a", "value": null}]);
        assert_eq!(patched(json!({}), &steps), Some(json!({})));
    }

    #[test]
    fn a_merge_prunes_nulls_it_brings_along() {
        let mut document = json!({"a": {"b": 1}, "l": [1]});
        let patch = json!({"a": {"b": null}, "l": [{"x": null}], "n": {"y": null}});
        if let (Value::Object(document), Value::Object(patch)) = (&mut document, &patch) {
            merge(document, patch);
        }
        assert_eq!(document, json!({"a": {}, "l": [{}], "n": {}}));
    }

    #[test]
    fn no_number_of_copies_nests_a_document_too_deeply() {
        let copy = json!({"op": "copy", "from": "/a", "path": "/a/b"});
        let patch = JsonPatch::new(json!({"a": {"b": 1}}), b"");
        assert!(patch.apply(&vec![copy; 1000]).is_none());
    }
}
