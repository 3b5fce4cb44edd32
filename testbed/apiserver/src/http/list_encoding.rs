//! A list on its way out. Its objects are those of the store and are written from there: ten thousand
//! of them are not copied to be read once.
//!
//! Which objects it holds is decided elsewhere.

use std::sync::Arc;

use aplomb_builtin_kinds as kinds;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

use super::negotiate::{Form, Output};
use super::response::Reply;

/// Objects as they are, in the frame of their list.
#[derive(Debug)]
pub(super) struct Objects {
    pub(super) kind: String,
    pub(super) api_version: String,
    pub(super) metadata: Value,
    pub(super) items: Vec<Arc<Value>>,
    /// Items of built-in kinds do not say what they are.
    pub(super) bare: bool,
}

/// A list in the shape that was asked for.
#[derive(Debug)]
pub(super) enum Listing {
    /// As it is.
    Objects(Objects),
    /// As a Table, or only metadata.
    Shaped(Value),
}

impl Listing {
    /// The answer in the form that was negotiated.
    pub(super) fn reply(&self, output: &Output) -> Reply {
        match self {
            Self::Shaped(list) => Reply::object(200, list, output),
            Self::Objects(list) if output.form == Form::Json => Reply::written(200, list, output),
            Self::Objects(list) => {
                let whole = serde_json::to_value(list).expect("a list of JSON values is one");
                Reply::object(200, &whole, output)
            }
        }
    }
}

impl Serialize for Objects {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let items = Items {
            items: &self.items,
            bare: self.bare,
        };
        let mut map = serializer.serialize_map(Some(4))?;
        if self.bare {
            map.serialize_entry("kind", &self.kind)?;
            map.serialize_entry("apiVersion", &self.api_version)?;
            map.serialize_entry("metadata", &kinds::list_meta(&self.metadata))?;
            map.serialize_entry("items", &items)?;
        } else {
            // The server keeps custom resources in maps, which Go writes sorted.
            map.serialize_entry("apiVersion", &self.api_version)?;
            map.serialize_entry("items", &items)?;
            map.serialize_entry("kind", &self.kind)?;
            map.serialize_entry("metadata", &self.metadata)?;
        }
        map.end()
    }
}

struct Items<'a> {
    items: &'a [Arc<Value>],
    bare: bool,
}

impl Serialize for Items<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.items.iter().map(|item| {
            let item = kinds::laid_out(item);
            if self.bare { item.bare() } else { item }
        }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn items_say_what_they_are_unless_they_are_bare() {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"kind": "kept"}});
        let list = |bare| Objects {
            kind: "ConfigMapList".to_owned(),
            api_version: "v1".to_owned(),
            metadata: json!({"resourceVersion": "7"}),
            items: vec![Arc::new(object.clone())],
            bare,
        };
        let written = |bare| serde_json::to_value(list(bare)).expect("written");
        assert_eq!(written(false)["items"], json!([object]));
        assert_eq!(written(true)["items"], json!([{"data": {"kind": "kept"}}]));
        assert_eq!(written(true)["metadata"], json!({"resourceVersion": "7"}));
        let text = |bare| serde_json::to_string(&list(bare)).expect("written");
        assert!(text(false).starts_with(r#"{"apiVersion":"v1","items":["#));
        assert!(text(true).starts_with(r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":"#));
    }
}
