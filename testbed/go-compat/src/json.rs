//! Numbers and JSON as Go prints them.

use serde_json::Value;

/// A float as `%v` prints it: shortest digits, an exponent from 1e+06 on and below 1e-04.
#[must_use]
pub fn float(value: f64) -> String {
    shortest(value, -4, 6)
}

/// A value as `encoding/json` prints it: sorted keys, `<`, `>` and `&` escaped.
#[must_use]
pub fn json(value: &Value) -> String {
    let mut text = String::new();
    write_json(value, &mut text);
    text
}

fn write_json(value: &Value, out: &mut String) {
    match value {
        Value::Number(number) => out.push_str(&json_number(number)),
        Value::String(text) => out.push_str(&json_string(text)),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (index, (key, item)) in map.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&json_string(key));
                out.push(':');
                write_json(item, out);
            }
            out.push('}');
        }
        Value::Null | Value::Bool(_) => out.push_str(&value.to_string()),
    }
}

fn json_number(number: &serde_json::Number) -> String {
    match number.as_f64() {
        Some(value) if number.is_f64() => shortest(value, -6, 21),
        _ => number.to_string(),
    }
}

fn json_string(text: &str) -> String {
    escaped(Value::from(text).to_string())
}

/// JSON with the characters Go escapes in it, which can only stand in strings.
#[must_use]
pub fn escaped(json: String) -> String {
    if !json.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return json;
    }
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

/// Shortest digits that read back as `value`, with an exponent below 10^`low` and from 10^`high`.
fn shortest(value: f64, low: i32, high: i32) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent >= low && exponent < high {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json as value;

    #[test]
    fn floats_print_as_in_go_messages() {
        assert_eq!(float(0.3), "0.3");
        assert_eq!(float(1_000_000.2), "1.0000002e+06");
        assert_eq!(float(123_456.5), "123456.5");
        assert_eq!(float(0.00001), "1e-05");
        assert_eq!(float(1.234_567_890_123_456_7e19), "1.2345678901234567e+19");
    }

    #[test]
    fn json_escapes_what_go_escapes() {
        assert_eq!(
            json(&value!({"b": "<&>", "a": [1.5, 1e21]})),
            r#"{"a":[1.5,1e+21],"b":"\u003c\u0026\u003e"}"#
        );
    }
}
