//! Duplicate fields in a JSON text, as the server's strict decoder reports them.
//!
//! A parsed `Value` no longer knows them, so this reads the bytes.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};

/// The decoder stops counting after this many.
const LIMIT: usize = 100;

/// `duplicate field "spec.x"` for each field given twice, in the order they are met; empty when
/// the text is not JSON.
#[must_use]
pub fn duplicate_fields(raw: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let mut reader = serde_json::Deserializer::from_slice(raw);
    let seed = Scan {
        path: String::new(),
        found: &mut found,
    };
    if seed.deserialize(&mut reader).is_err() {
        return Vec::new();
    }
    let mut seen = BTreeSet::new();
    found.retain(|path| seen.insert(path.clone()));
    found.truncate(LIMIT);
    found
        .into_iter()
        .map(|path| format!("duplicate field \"{path}\""))
        .collect()
}

struct Scan<'a> {
    path: String,
    found: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Scan<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Scan<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            let path = if self.path.is_empty() {
                key.clone()
            } else {
                format!("{}.{key}", self.path)
            };
            if !seen.insert(key) {
                self.found.push(path.clone());
            }
            map.next_value_seed(Scan {
                path,
                found: self.found,
            })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let mut index = 0;
        let item = |index: usize| format!("{}[{index}]", self.path);
        while seq
            .next_element_seed(Scan {
                path: item(index),
                found: self.found,
            })?
            .is_some()
        {
            index += 1;
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_are_listed_once_in_the_order_met() {
        let raw = br#"{"metadata":{"name":"a","name":"b"},"spec":{"size":1,"size":2,
            "items":[{"name":"a","name":"b","name":"c"}]},"spec":{"size":3}}"#;
        let expected = ["metadata.name", "spec.size", "spec.items[0].name", "spec"];
        let expected: Vec<String> = expected.iter().map(|p| format!("duplicate field \"{p}\"")).collect();
        assert_eq!(duplicate_fields(raw), expected);
    }

    #[test]
    fn what_is_not_json_has_no_duplicates() {
        assert!(duplicate_fields(b"{\"a\":1,\"a\":").is_empty());
    }
}
