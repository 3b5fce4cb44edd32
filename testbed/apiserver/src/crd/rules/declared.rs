//! What a schema says about the size of its values.

use aplomb_cel::{Declared, MAX_REQUEST, escape};

use crate::crd::structural::Structural;

fn leaf(most: u64, least_bytes: u64) -> Declared {
    Declared {
        most,
        least_bytes,
        ..Declared::default()
    }
}

/// Reads the limits of a schema; nothing when rules cannot see its values.
pub(super) fn limits(schema: &Structural, is_resource: bool) -> Option<Declared> {
    if schema.extensions.int_or_string {
        return Some(leaf(longest(schema, MAX_REQUEST - 2), 1));
    }
    match schema.type_name.as_str() {
        "array" => {
            let items = schema.items.as_deref()?;
            let item = limits(items, items.extensions.embedded_resource)?;
            let fit = (MAX_REQUEST - 2) / (item.least_bytes + 1);
            let most = limit(schema.limits.max_items).unwrap_or(fit);
            Some(container(most, item, false))
        }
        "object" => match schema.additional_schema() {
            Some(values) => {
                let value = limits(values, values.extensions.embedded_resource)?;
                let fit = (MAX_REQUEST - 2) / (value.least_bytes + 6);
                let most = limit(schema.limits.max_properties).unwrap_or(fit);
                Some(container(most, value, true))
            }
            None => Some(object(schema, is_resource)),
        },
        "string" => Some(string(schema)),
        "boolean" => Some(leaf(0, 4)),
        "number" | "integer" => Some(leaf(0, 1)),
        _ => None,
    }
}

fn limit(stated: Option<i64>) -> Option<u64> {
    stated.map(|limit| u64::try_from(limit).unwrap_or(0))
}

fn container(most: u64, element: Declared, is_map: bool) -> Declared {
    Declared {
        element: Some(Box::new(element)),
        is_map,
        ..leaf(most, 2)
    }
}

/// Characters may take four bytes each.
fn longest(schema: &Structural, otherwise: u64) -> u64 {
    limit(schema.limits.max_length).map_or(otherwise, |length| length * 4)
}

fn string(schema: &Structural) -> Declared {
    let unbounded = MAX_REQUEST - 2;
    match schema.format.as_str() {
        "byte" => leaf(limit(schema.limits.max_length).unwrap_or(unbounded), 2),
        "duration" => leaf(32, 3),
        "date" => leaf(12, 12),
        "date-time" => leaf(32, 21),
        _ => {
            let values = &schema.limits.enumeration;
            let lengths = values
                .iter()
                .filter_map(|value| value.as_str())
                .map(|text| text.len() as u64);
            let otherwise = match values.is_empty() {
                true => unbounded,
                false => lengths.max().unwrap_or(0),
            };
            leaf(longest(schema, otherwise), 2)
        }
    }
}

fn object(schema: &Structural, is_resource: bool) -> Declared {
    let mut found = leaf(0, 2);
    let unbounded = || leaf(MAX_REQUEST - 2, 2);
    for (name, property) in &schema.properties {
        let always = is_resource && matches!(name.as_str(), "apiVersion" | "kind" | "metadata");
        let inner = limits(property, property.extensions.embedded_resource);
        let Some(inner) = inner.filter(|_| !always) else {
            continue;
        };
        if schema.limits.required.contains(name) && property.default.is_none() {
            found.least_bytes += name.len() as u64 + inner.least_bytes + 4;
        }
        if let Some(escaped) = escape(name) {
            found.fields.insert(escaped, inner);
        }
    }
    if is_resource {
        let mut metadata = leaf(0, 2);
        for name in ["name", "generateName"] {
            metadata.fields.insert(name.to_owned(), unbounded());
        }
        for (name, inner) in [
            ("apiVersion", unbounded()),
            ("kind", unbounded()),
            ("metadata", metadata),
        ] {
            if schema.limits.required.iter().any(|required| required == name) {
                found.least_bytes += name.len() as u64 + inner.least_bytes + 4;
            }
            found.fields.insert(name.to_owned(), inner);
        }
    }
    found
}
