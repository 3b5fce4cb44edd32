//! The walks over a value together with its type.
//!
//! Each walk decides the same way which form of a type applies (`Forms`) and how list items are
//! told apart (`item_element`); those over two values also what there is to walk (`Sides`).

mod compare;
mod field_set;
mod merge;
mod reconcile;
mod remove;
mod sides;
mod validate;

use std::fmt;

use serde_json::Value;

use super::path::PathElement;
use super::schema::{Atom, ListRelationship, ListType, MapType, Scalar, Schema};

pub use compare::{Comparison, compare};
pub use field_set::field_set;
pub use merge::merge;
pub use reconcile::reconcile;
pub use remove::remove;
pub use validate::validate;

/// A value that does not fit its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Where, as a path's text.
    pub path: String,
    /// What.
    pub message: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return f.write_str(&self.message);
        }
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// All mismatches of a value; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatches(pub Vec<Mismatch>);

impl fmt::Display for Mismatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return write!(f, "{only}");
        }
        f.write_str("errors:")?;
        self.0.iter().try_for_each(|mismatch| write!(f, "\n  {mismatch}"))
    }
}

impl Mismatches {
    fn new(message: impl Into<String>) -> Self {
        Self(vec![Mismatch {
            path: String::new(),
            message: message.into(),
        }])
    }

    fn below(mut self, element: &PathElement) -> Self {
        let prefix = element.to_string();
        for mismatch in &mut self.0 {
            mismatch.path.insert_str(0, &prefix);
        }
        self
    }
}

/// Which forms of a type are still possible for a value.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Forms {
    scalar: bool,
    list: bool,
    map: bool,
}

/// The form of a type that applies.
#[derive(Clone, Copy)]
enum Form<'s> {
    Map(&'s MapType),
    Scalar(Scalar),
    List(&'s ListType),
}

impl Forms {
    /// The one that fits the value, or all of the type where none does (null fits any).
    fn of(atom: &Atom, value: Option<&Value>) -> Self {
        let all = Self {
            scalar: atom.scalar.is_some(),
            list: atom.list.is_some(),
            map: atom.map.is_some(),
        };
        let none = Self {
            scalar: false,
            list: false,
            map: false,
        };
        match value {
            Some(Value::Number(_) | Value::String(_) | Value::Bool(_)) if all.scalar => Self { scalar: true, ..none },
            Some(Value::Array(_)) if all.list => Self { list: true, ..none },
            Some(Value::Object(_)) if all.map => Self { map: true, ..none },
            _ => all,
        }
    }

    fn pick(self, atom: &Atom) -> Option<Form<'_>> {
        match (self.map, self.scalar) {
            (true, _) => atom.map.as_ref().map(Form::Map),
            (false, true) => atom.scalar.map(Form::Scalar),
            (false, false) => atom.list.as_ref().map(Form::List),
        }
    }
}

fn form<'s>(atom: &'s Atom, value: &Value) -> Option<Form<'s>> {
    Forms::of(atom, Some(value)).pick(atom)
}

/// Says what is wrong with a scalar, with Go's words for the value.
fn check_scalar(scalar: Scalar, value: Option<&Value>, prefix: &str) -> Result<(), Mismatches> {
    use super::value::{go_syntax, go_type, go_value};
    let Some(value) = value.filter(|value| !value.is_null()) else {
        return Ok(());
    };
    let wrong = match scalar {
        Scalar::Numeric if !value.is_number() => {
            format!("expected numeric (int or float), got {}", go_type(value))
        }
        Scalar::String if !value.is_string() => {
            format!(
                "expected string, got &value.valueUnstructured{{Value:{}}}",
                go_syntax(value)
            )
        }
        Scalar::Boolean if !value.is_boolean() => {
            format!("expected boolean, got &{{{}}}", go_value(value))
        }
        Scalar::Untyped if value.is_array() || value.is_object() => {
            format!("expected any scalar, got &{{{}}}", go_value(value))
        }
        _ => return Ok(()),
    };
    Err(Mismatches::new(format!("{prefix}{wrong}")))
}

/// How an item of an associative list is named.
fn item_element(schema: &Schema, list: &ListType, item: &Value) -> Result<PathElement, String> {
    match &list.relationship {
        ListRelationship::Atomic => Err("invalid indexing of non-associative list".to_owned()),
        ListRelationship::Map(keys) => keyed_element(schema, list, keys, item),
        ListRelationship::Set => match item {
            Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
            Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
            Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
            scalar => Ok(PathElement::Value(scalar.clone())),
        },
    }
}

fn keyed_element(schema: &Schema, list: &ListType, keys: &[String], item: &Value) -> Result<PathElement, String> {
    let fields = match item {
        Value::Object(fields) => fields,
        Value::Null => {
            return Err("associative list with keys may not have a null element".to_owned());
        }
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        if let Some(value) = fields.get(key) {
            found.push((key.clone(), value.clone()));
            continue;
        }
        let Some(map) = &schema.atom(list.element).map else {
            return Err(format!(
                "couldn't find default value for {key}: associative list may not have non-map types"
            ));
        };
        if let Some(default) = map.fields.get(key).and_then(|field| field.default.as_ref()) {
            found.push((key.clone(), default.clone()));
        }
    }
    if found.is_empty() {
        let keys: Vec<_> = keys.iter().map(|key| aplomb_go_compat::quote(key)).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
            keys.join(" ")
        ));
    }
    Ok(PathElement::key(found))
}
