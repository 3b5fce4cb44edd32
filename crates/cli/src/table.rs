//! A server's Table as kubectl prints it: aligned columns, three spaces apart.

use serde_json::Value;

/// The always-shown columns of a `meta.k8s.io/v1` Table, with a first column for the namespace if rows
/// come from several.
pub(crate) fn render_in(table: &Value, namespaces: bool) -> String {
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
    if namespaces {
        rows[0].insert(0, "NAMESPACE".to_owned());
        for (cells, row) in rows[1..].iter_mut().zip(array(table, "rows")) {
            cells.insert(0, cell(&row["object"]["metadata"]["namespace"]));
        }
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

/// Rows of equal length, as columns.
pub(crate) fn align(rows: &[Vec<String>]) -> String {
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
            render_in(&table, false),
            "NAME     READY\ntea      <none>\ncoffee   True\n"
        );
    }
}
