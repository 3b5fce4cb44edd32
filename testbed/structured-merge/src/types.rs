//! The versions of one resource: their types, and how an object gets from one to another.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::openapi::{self, Components};
use super::path::PathElement;
use super::schema::{Schema, TypeId};
use super::set::Set;
use super::typed::{self, Comparison, Mismatches};

/// From an object and its version to the same object in another version.
pub type Convert = Arc<dyn Fn(&Value, &str, &str) -> Value + Send + Sync>;

/// An object together with the version it is in.
#[derive(Clone, Debug)]
pub struct Object<'a> {
    /// `apiVersion`.
    pub version: String,
    /// The object.
    pub value: Cow<'a, Value>,
}

/// Why an object cannot be had in another version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConvertError {
    /// There is no such version (any more): what was recorded under it is obsolete.
    Missing,
    /// Anything else.
    Other(String),
}

/// All versions of a resource.
#[derive(Clone)]
pub struct Types {
    versions: BTreeMap<String, (Schema, TypeId)>,
    /// Unknown versions are refused rather than forgotten, as custom resources do.
    strict: bool,
    convert: Option<Convert>,
}

impl fmt::Debug for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Types")
            .field("versions", &self.versions.keys())
            .finish_non_exhaustive()
    }
}

impl Types {
    /// Reads the types of each version from its OpenAPI schema.
    pub fn new<'a>(
        versions: impl IntoIterator<Item = (&'a str, &'a Value)>,
        components: &Components,
        strict: bool,
    ) -> Self {
        let versions = versions
            .into_iter()
            .map(|(version, schema)| (version.to_owned(), openapi::read(schema, components)))
            .collect();
        Self {
            versions,
            strict,
            convert: None,
        }
    }

    /// Uses `convert` between versions; without it only `apiVersion` changes.
    #[must_use]
    pub fn with_conversion(mut self, convert: Convert) -> Self {
        self.convert = Some(convert);
        self
    }

    fn get(&self, version: &str) -> Result<(&Schema, TypeId), ConvertError> {
        match self.versions.get(version) {
            Some((schema, root)) => Ok((schema, *root)),
            None => Err(ConvertError::Missing),
        }
    }

    /// Checks an object against its version.
    ///
    /// # Errors
    /// What does not fit.
    pub fn check(&self, version: &str, value: &Value, allow_duplicates: bool) -> Result<(), Mismatches> {
        match self.versions.get(version) {
            Some((schema, root)) => typed::validate(schema, *root, value, allow_duplicates),
            None => Ok(()),
        }
    }

    /// The object in another version.
    ///
    /// # Errors
    /// No such version, or the converted object does not fit it.
    pub fn convert<'a>(&self, object: &Object<'a>, to: &str) -> Result<Object<'a>, ConvertError> {
        if object.version == to {
            return Ok(object.clone());
        }
        let (schema, root) = match self.get(to) {
            Err(ConvertError::Missing) if self.strict => {
                return Err(ConvertError::Other(format!(
                    "request to convert CR to an invalid group/version: {to}"
                )));
            }
            // Both groups of events are stored as one, but their owners do not know each other.
            Ok(_) if group(to) != group(&object.version) => return Err(ConvertError::Missing),
            found => found?,
        };
        let mut value = match &self.convert {
            Some(convert) => convert(&object.value, &object.version, to),
            None => object.value.clone().into_owned(),
        };
        if let Value::Object(map) = &mut value {
            map.insert("apiVersion".to_owned(), to.into());
        }
        typed::validate(schema, root, &value, false).map_err(|why| ConvertError::Other(why.to_string()))?;
        Ok(Object {
            version: to.to_owned(),
            value: Cow::Owned(value),
        })
    }

    /// The fields an object states.
    #[must_use]
    pub fn field_set(&self, object: &Object<'_>) -> Set {
        match self.get(&object.version) {
            Ok((schema, root)) => typed::field_set(schema, root, &object.value),
            Err(_) => Set::default(),
        }
    }

    /// What changed between two objects of one version.
    ///
    /// # Errors
    /// An object that does not fit its type.
    pub fn compare(&self, old: &Object<'_>, new: &Object<'_>) -> Result<Comparison, String> {
        let Ok((schema, root)) = self.get(&new.version) else {
            return Ok(Comparison::default());
        };
        typed::compare(schema, root, &old.value, &new.value).map_err(|why| why.to_string())
    }

    /// `applied` merged over `live`.
    ///
    /// # Errors
    /// An object that does not fit its type.
    pub fn merge(&self, live: &Object<'_>, applied: &Object<'_>) -> Result<Object<'static>, String> {
        let (schema, root) = self.get(&live.version).map_err(|_| "no such version".to_owned())?;
        let value = typed::merge(schema, root, &live.value, &applied.value).map_err(|why| why.to_string())?;
        Ok(Object {
            version: live.version.clone(),
            value: Cow::Owned(value),
        })
    }

    /// The object without some fields.
    #[must_use]
    pub fn remove(&self, object: &Object<'_>, items: &Set) -> Object<'static> {
        let value = object.value.clone().into_owned();
        let value = match self.get(&object.version) {
            Ok((schema, root)) if !items.is_empty() => typed::remove(schema, root, value, items),
            _ => value,
        };
        Object {
            version: object.version.clone(),
            value: Cow::Owned(value),
        }
    }

    /// See [`Schema::with_named_fields`].
    #[must_use]
    pub fn with_named_fields(&self, version: &str, set: &Set) -> Set {
        match self.get(version) {
            Ok((schema, root)) => schema.with_named_fields(set, Some(root)),
            Err(_) => set.clone(),
        }
    }

    /// See [`typed::reconcile`].
    #[must_use]
    pub fn reconcile(&self, version: &str, set: &Set) -> Option<Set> {
        let (schema, root) = self.get(version).ok()?;
        typed::reconcile(schema, root, set)
    }
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// A set of plain field paths, as strategies name the fields they reset.
#[must_use]
pub fn plain_set(paths: &[Vec<String>]) -> Set {
    let mut set = Set::default();
    for path in paths {
        let path: Vec<_> = path.iter().map(PathElement::field).collect();
        set.insert(&path);
    }
    set
}
