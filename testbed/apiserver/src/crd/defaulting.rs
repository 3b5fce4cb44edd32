//! Defaults of a structural schema, filled into objects.

use serde_json::Value;

use super::structural::Structural;

/// Fills in defaults below `value`; an explicit null gives way to a default unless it is allowed.
pub fn default(value: &mut Value, schema: &Structural) {
    match value {
        Value::Object(map) => {
            for (key, property) in &schema.properties {
                let Some(default) = &property.default else {
                    continue;
                };
                if map.get(key).is_none_or(|member| member.is_null() && !property.nullable) {
                    map.insert(key.clone(), default.clone());
                }
            }
            for (key, member) in map.iter_mut() {
                if let Some(property) = schema.properties.get(key) {
                    self::default(member, property);
                } else if let Some(additional) = schema.additional_schema() {
                    replace_null(member, additional);
                    self::default(member, additional);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.items.as_deref() else {
                return;
            };
            for item in items {
                replace_null(item, schema);
                self::default(item, schema);
            }
        }
        _ => {}
    }
}

fn replace_null(value: &mut Value, schema: &Structural) {
    if let (true, false, Some(default)) = (value.is_null(), schema.nullable, &schema.default) {
        *value = default.clone();
    }
}
