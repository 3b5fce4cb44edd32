//! Our kinds as tables: the columns of each kind's own definition, over the object as JSON, as the API server
//! prints them for `kubectl get`. Pure: the time is given. Reads no server, and shows nothing a column does not name.

mod age;
mod cell;
mod path;
mod resource;
mod text;

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::age::{human_duration, age_at};
pub use self::resource::{KindInfo, find_by_name, all_resources};
pub use self::text::{TableLayout, TableStyle, align_columns};

/// A column of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TableColumn {
    /// Its title, as the definition writes it.
    pub name: String,
    /// `string`, `integer`, `boolean` or `date`.
    #[serde(rename = "type")]
    pub type_: String,
    /// 0 is always shown, anything above only when wide.
    pub priority: i32,
}

/// One object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TableRow {
    /// Where it is; `None` in a kind without namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Which object of that name.
    pub uid: String,
    /// The version of the object that the cells were read from.
    pub resource_version: String,
    /// The generation of its spec.
    pub generation: i64,
    /// One text per column, as it is printed; empty where the object says nothing.
    pub cells: Vec<String>,
}

/// Objects of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectTable {
    /// The kind.
    pub kind: String,
    /// As the server's paths name it.
    pub plural: String,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// The name first, then what the definition adds.
    pub columns: Vec<TableColumn>,
    /// In the order of namespaces and names.
    pub rows: Vec<TableRow>,
}

impl ObjectTable {
    /// The cell of a row in the column called `name`.
    #[must_use]
    pub fn cell<'a>(&self, row: &'a TableRow, name: &str) -> Option<&'a str> {
        let column = self.columns.iter().position(|column| column.name == name)?;
        row.cells.get(column).map(String::as_str)
    }
}

impl KindInfo {
    /// The table of `objects` at a time.
    #[must_use]
    pub fn build_table<'a>(
        &self,
        objects: impl IntoIterator<Item = &'a Value>,
        at: Timestamp,
    ) -> ObjectTable {
        let mut rows: Vec<TableRow> = objects.into_iter().map(|one| self.build_row(one, at)).collect();
        rows.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        ObjectTable {
            kind: self.kind.clone(),
            plural: self.plural.clone(),
            namespaced: self.namespaced,
            columns: self.columns.clone(),
            rows,
        }
    }

    /// The row of one object at a time.
    #[must_use]
    pub fn build_row(&self, object: &Value, at: Timestamp) -> TableRow {
        let meta = &object["metadata"];
        let text = |key: &str| meta[key].as_str().unwrap_or_default().to_owned();
        let cells = self.columns.iter().zip(&self.paths);
        TableRow {
            namespace: meta["namespace"].as_str().map(str::to_owned),
            name: text("name"),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            generation: meta["generation"].as_i64().unwrap_or_default(),
            cells: cells
                .map(|(column, path)| match path.find_first(object) {
                    Some(value) => cell::cell_text(&column.type_, value, at),
                    None => String::new(),
                })
                .collect(),
        }
    }
}
