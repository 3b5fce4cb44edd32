//! A server's Table as kubectl prints it: aligned columns, three spaces apart.

use serde_json::Value;

/// The always-shown columns of a `meta.k8s.io/v1` Table.
pub(crate) fn render(table: &Value) -> String {
    let columns: Vec<(usize, String)> = array(table, "columnDefinitions")
        .iter()
        .enumerate()
        .filter(|(_, column)| column["priority"].as_i64().unwrap_or(0) == 0)
        .map(|(n, column)| (n, cell(&column["name"]).to_uppercase()))
        .collect();
    let mut rows = vec![
        columns
            .iter()
            .map(|(_, name)| name.clone())
            .collect::<Vec<_>>(),
    ];
    for row in array(table, "rows") {
        rows.push(
            columns
                .iter()
                .map(|(n, _)| cell(&row["cells"][*n]))
                .collect(),
        );
    }
    align(&rows)
}

fn array<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "<none>".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn align(rows: &[Vec<String>]) -> String {
    let count = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..count)
        .map(|n| {
            rows.iter()
                .map(|row| row[n].chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for row in rows {
        let padded: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        text.push_str(padded.join("   ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn columns_align_and_wide_ones_stay_out() {
        let table = json!({
            "columnDefinitions": [
                { "name": "Name", "priority": 0 },
                { "name": "Colour", "priority": 1 },
                { "name": "Ready" },
            ],
            "rows": [{ "cells": ["tea", "red", null] }, { "cells": ["coffee", "green", "True"] }],
        });
        assert_eq!(
            render(&table),
            "NAME     READY\ntea      <none>\ncoffee   True\n"
        );
    }
}
