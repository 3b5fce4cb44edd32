//! `additionalPrinterColumns` as Table columns and cells.

use aplomb_apimachinery::resource::Column;
use aplomb_go_compat as go;
use jiff::Timestamp;
use serde_json::Value;

use super::jsonpath::JsonPath;

const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
const CREATION: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// The columns of one CRD version.
#[derive(Debug)]
pub struct Columns {
    headers: Vec<Column>,
    paths: Vec<JsonPath>,
}

impl Columns {
    /// Reads `additionalPrinterColumns`; without any there is the age. A path that cannot be read
    /// ends the list, as on the server.
    #[must_use]
    pub fn parse(version: &Value) -> Self {
        let mut columns = Self {
            headers: vec![name_column()],
            paths: Vec::new(),
        };
        let declared = version.get("additionalPrinterColumns").and_then(Value::as_array);
        let Some(declared) = declared.filter(|list| !list.is_empty()) else {
            columns.headers.push(age_column());
            columns.paths.extend(JsonPath::parse(".metadata.creationTimestamp"));
            return columns;
        };
        for column in declared {
            let Ok(path) = JsonPath::parse(text(column, "jsonPath")) else {
                break;
            };
            columns.headers.push(header(column));
            columns.paths.push(path);
        }
        columns
    }

    /// Column definitions.
    #[must_use]
    pub fn headers(&self) -> Vec<Column> {
        self.headers.clone()
    }

    /// One object's cells.
    #[must_use]
    pub fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let name = object.pointer("/metadata/name").cloned().unwrap_or_else(|| "".into());
        let rest = self.headers[1..].iter().zip(&self.paths);
        let cell = |(header, path): (&Column, &JsonPath)| match path.find(object).unwrap_or_default().first() {
            Some(value) => cell(&header.kind, value, now),
            None => Value::Null,
        };
        std::iter::once(name).chain(rest.map(cell)).collect()
    }
}

/// The columns of definitions themselves.
#[must_use]
pub fn of_definitions() -> Vec<Column> {
    vec![
        name_column(),
        Column {
            name: "Created At".into(),
            ..age_column()
        },
    ]
}

fn name_column() -> Column {
    let format = "name".to_owned();
    Column {
        name: "Name".into(),
        kind: "string".into(),
        format,
        description: NAME.into(),
        priority: 0,
    }
}

fn age_column() -> Column {
    let format = String::new();
    Column {
        name: "Age".into(),
        kind: "date".into(),
        format,
        description: CREATION.into(),
        priority: 0,
    }
}

fn header(column: &Value) -> Column {
    let description = match text(column, "description") {
        "" => format!(
            "Custom resource definition column (in JSONPath format): {}",
            text(column, "jsonPath")
        ),
        given => given.to_owned(),
    };
    let priority = column
        .get("priority")
        .and_then(Value::as_i64)
        .and_then(|p| i32::try_from(p).ok());
    Column {
        name: text(column, "name").to_owned(),
        kind: text(column, "type").to_owned(),
        format: text(column, "format").to_owned(),
        description,
        priority: priority.unwrap_or(0),
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn cell(kind: &str, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        ("string", Value::String(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("string", Value::Null) => "<no value>".into(),
        ("string", Value::Number(number)) if number.is_f64() => go::float(number.as_f64().unwrap_or_default()).into(),
        ("string", other) => go::json(other).into(),
        ("integer", Value::Number(number)) => whole(number).into(),
        ("number", Value::Number(_)) => value.clone(),
        ("date", Value::String(time)) => age(time, now).into(),
        _ => Value::Null,
    }
}

#[allow(clippy::cast_possible_truncation)] // the server truncates floats in integer columns
fn whole(number: &serde_json::Number) -> i64 {
    number
        .as_i64()
        .unwrap_or_else(|| number.as_f64().unwrap_or_default() as i64)
}

fn age(time: &str, now: Timestamp) -> String {
    match time.parse::<Timestamp>() {
        Ok(then) => human_duration(now.duration_since(then).as_secs()),
        Err(_) if time.is_empty() => "<unknown>".to_owned(),
        Err(_) => "<invalid>".to_owned(),
    }
}

/// A duration in seconds as kubectl shows ages: two units at most, coarser as it grows.
#[must_use]
pub fn human_duration(seconds: i64) -> String {
    let two = |first: i64, unit: &str, second: i64, small: &str| match second {
        0 => format!("{first}{unit}"),
        _ => format!("{first}{unit}{second}{small}"),
    };
    let (minutes, hours, days, years) = (seconds / 60, seconds / 3600, seconds / 86_400, seconds / 31_536_000);
    match seconds {
        i64::MIN..=-2 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 192 => two(days, "d", hours % 24, "h"),
        _ if years < 2 => format!("{days}d"),
        _ if years < 8 => two(years, "y", days % 365, "d"),
        _ => format!("{years}y"),
    }
}
