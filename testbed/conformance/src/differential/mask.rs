//! Takes out of an answer what two honest servers may say differently: UIDs, times, versions,
//! allocated addresses, generated names. What stands in their place keeps their identity, so that
//! a version that did not move, or a UID that should not have changed, still shows.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Value, json};

use super::peer::Answer;
use super::track::Key;

static UUID: LazyLock<Regex> =
    LazyLock::new(|| pattern("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));
static NOW: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"20(2[6-9]|[3-9]\d)-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| \+0000 UTC)?( m=[+.\d]+)?"));
static NUMBER: LazyLock<Regex> = LazyLock::new(|| pattern(r"<[^>]*>|\b\d+\b"));
static ALLOCATED: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b10\.0\.0\.(\d+)\b"));
static GENERATED: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b(gen-a\.|gen-|Bad_)[b-df-hj-np-tv-z2-9]{5}\b"));
static VERSION_FIELD: LazyLock<Regex> = LazyLock::new(|| pattern(r#"(resourceVersion(?:\\?":\s?\\?"|:))\d+"#));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is a constant of this file")
}

/// Addresses below this one in the service range are only ever given out when asked for.
const FIRST_ALLOCATED: u32 = 16;

/// A refused change of a Pod ends with a comparison of Go structures, line by line.
fn without_struct_diff(text: &str) -> String {
    let Some((before, diff)) = text.split_once("\n@@ ") else {
        return text.to_owned();
    };
    let rest = diff
        .lines()
        .skip(1)
        .skip_while(|line| line.starts_with([' ', '+', '-', '@']));
    format!("{before}{}", rest.collect::<Vec<_>>().join("\n"))
}

/// A refused change of what a job is made of shows the whole of it as the server's own structures.
fn without_immutable(text: &str) -> String {
    const BEFORE: &str = "Invalid value: {";
    const AFTER: &str = ": field is immutable";
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(BEFORE).map(|at| at + BEFORE.len() - 1) {
        let (before, value) = rest.split_at(start);
        out.push_str(before);
        rest = value;
        let Some(end) = value.find(AFTER) else { break };
        let shown = value[..end].to_lowercase();
        if !shown.contains("invalid value: ") && ["\"containers\"", "\"rules\""].iter().any(|word| shown.contains(word))
        {
            out.push_str("<structure>");
            rest = &value[end..];
        }
    }
    out.push_str(rest);
    out
}

/// What a token request is answered with: the token, and the servers' names for themselves.
fn token(body: &mut Value) {
    if body["kind"] != "TokenRequest" {
        return;
    }
    if body["status"]["token"]
        .as_str()
        .is_some_and(|token| token.split('.').count() == 3)
    {
        body["status"]["token"] = json!("<token>");
    }
    for audience in body["spec"]["audiences"].as_array_mut().into_iter().flatten() {
        if audience.as_str().is_some_and(|name| name.starts_with("https://")) {
            *audience = json!("<issuer>");
        }
    }
}

/// What one server's UIDs and versions stand for.
#[derive(Debug, Default)]
pub struct Mask {
    uids: BTreeMap<String, String>,
    incarnations: BTreeMap<Key, u32>,
    versions: BTreeMap<Key, Vec<u64>>,
    newest: u64,
}

impl Mask {
    /// An answer with everything masked. `storage` is the kind asked for, `key` the object.
    pub fn answer(&mut self, storage: &str, key: Option<&Key>, answer: &Answer) -> Value {
        let mut body = answer.body.clone();
        if body["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) {
            self.list(storage, &mut body);
        } else if body["kind"] == "Table" {
            self.table(storage, &mut body);
        } else if body["kind"] == "Status" {
            self.status(key, &mut body);
        } else if body.is_object() {
            self.object(storage, &mut body, true);
            token(&mut body);
        }
        self.strings(&mut body);
        let warnings: Vec<String> = answer.warnings.iter().map(|text| self.text(text)).collect();
        json!({
            "code": answer.code,
            "contentType": answer.content_type,
            "warnings": warnings,
            "body": body,
        })
    }

    /// A watch event with everything masked.
    pub fn event(&mut self, storage: &str, event: &Value) -> Value {
        let mut event = event.clone();
        self.object(storage, &mut event["object"], false);
        self.strings(&mut event);
        event
    }

    /// Both servers start an object anew, so its numbers must too.
    pub fn reset(&mut self, key: &Key, incarnation: u32) {
        self.incarnations.insert(key.clone(), incarnation);
        self.versions.remove(key);
    }

    fn list(&mut self, storage: &str, list: &mut Value) {
        if let Some(items) = list["items"].as_array_mut() {
            for item in items {
                self.object(storage, item, true);
            }
        }
        self.list_metadata(&mut list["metadata"]);
    }

    /// Cells that say how long ago something was depend on the moment.
    fn table(&mut self, storage: &str, table: &mut Value) {
        let columns = table["columnDefinitions"].as_array().cloned();
        let of_time: Vec<bool> = columns
            .unwrap_or_default()
            .iter()
            .map(|column| ["Age", "Duration", "Last Schedule"].contains(&text_of(column, "name")))
            .collect();
        for row in table["rows"].as_array_mut().into_iter().flatten() {
            for (cell, of_time) in row["cells"].as_array_mut().into_iter().flatten().zip(&of_time) {
                if *of_time && cell.as_str().is_some_and(|text| text.ends_with(['s', 'm'])) {
                    *cell = json!("<duration>");
                }
            }
            self.object(storage, &mut row["object"], true);
        }
        self.list_metadata(&mut table["metadata"]);
    }

    fn list_metadata(&self, metadata: &mut Value) {
        if let Some(version) = number(&metadata["resourceVersion"]) {
            let fresh = if version >= self.newest { "<now>" } else { "<past>" };
            metadata["resourceVersion"] = json!(fresh);
        }
        if metadata["continue"].as_str().is_some_and(|token| !token.is_empty()) {
            metadata["continue"] = json!("<token>");
        }
    }

    fn object(&mut self, storage: &str, object: &mut Value, learn: bool) {
        let metadata = &mut object["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or("").to_owned();
        let key = Key::new(storage, &text("namespace"), &text("name"));
        let uid = text("uid");
        if !uid.is_empty() && !self.uids.contains_key(&uid) {
            let incarnation = self.incarnations.entry(key.clone()).or_insert(0);
            *incarnation += 1;
            self.uids.insert(uid, format!("<uid {key} {incarnation}>"));
        }
        if let Some(version) = number(&metadata["resourceVersion"]) {
            metadata["resourceVersion"] = json!(self.version(&key, version, learn));
        }
        for field in ["creationTimestamp", "deletionTimestamp"] {
            if metadata[field].is_string() {
                metadata[field] = json!("<time>");
            }
        }
        managers(metadata);
        tidy(metadata);
    }

    /// The n-th version seen of this object.
    fn version(&mut self, key: &Key, version: u64, learn: bool) -> String {
        let seen = self.versions.entry(key.clone()).or_default();
        if let Some(at) = seen.iter().position(|each| *each == version) {
            return format!("<version {at}>");
        }
        if !learn {
            return "<version new>".to_owned();
        }
        let forward = seen.last().is_none_or(|last| *last < version);
        seen.push(version);
        self.newest = self.newest.max(version);
        format!(
            "<version {}{}>",
            seen.len() - 1,
            if forward { "" } else { " backwards" }
        )
    }

    fn status(&self, key: Option<&Key>, status: &mut Value) {
        self.version_text(key, &mut status["message"]);
        if let Some(causes) = status["details"]["causes"].as_array_mut() {
            for cause in causes.iter_mut() {
                self.version_text(key, &mut cause["message"]);
            }
            // The real server walks a map here; its message beside them is in order.
            if causes.iter().all(|cause| cause["reason"] == "FieldManagerConflict") {
                causes.sort_by_key(ToString::to_string);
            }
        }
        if status["details"]["group"] == "differ.example.com" {
            unordered_causes(status);
        }
        tidy(status);
        if let Some(metadata) = status.get_mut("metadata").and_then(Value::as_object_mut)
            && metadata.contains_key("continue")
        {
            metadata.insert("continue".to_owned(), json!("<token>"));
        }
    }

    /// Versions inside a message, where the message is about versions.
    fn version_text(&self, key: Option<&Key>, text: &mut Value) {
        let Some(message) = text.as_str() else { return };
        let lower = message.to_lowercase();
        let about = lower.contains("resourceversion") || lower.contains("resource version");
        if !about || message.contains("Invalid value: ") {
            return;
        }
        let seen = key.and_then(|key| self.versions.get(key)).cloned().unwrap_or_default();
        let name = |found: &Captures<'_>| {
            if found[0].starts_with('<') {
                return found[0].to_owned();
            }
            let version: Option<u64> = found[0].parse().ok();
            match seen.iter().position(|each| Some(*each) == version) {
                Some(at) => format!("<version {at}>"),
                None if found[0].len() < 2 => found[0].to_owned(),
                None => "<version>".to_owned(),
            }
        };
        let message = self.text(message);
        *text = json!(NUMBER.replace_all(&message, name));
    }

    fn strings(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.strings(item)),
            Value::Object(fields) => {
                let old = std::mem::take(fields);
                for (name, mut inner) in old {
                    self.strings(&mut inner);
                    fields.insert(self.text(&name), inner);
                }
            }
            _ => {}
        }
    }

    fn text(&self, text: &str) -> String {
        let uid = |found: &Captures<'_>| match self.uids.get(&found[0]) {
            Some(label) => label.clone(),
            // What the generator made up is the same for both servers.
            None if found[0].starts_with("00000000-") => found[0].to_owned(),
            None => "<uid>".to_owned(),
        };
        let text = UUID.replace_all(text, uid);
        let text = NOW.replace_all(&text, "<time>");
        let text = without_immutable(&without_struct_diff(&text));
        let text = typed_errors(&sorted_patch(&text));
        let text = VERSION_FIELD.replace_all(&text, "$1<version>");
        let text = GENERATED.replace_all(&text, "$1<random>");
        let address = |found: &Captures<'_>| match found[1].parse::<u32>() {
            Ok(host) if (FIRST_ALLOCATED..256).contains(&host) => "<address>".to_owned(),
            _ => found[0].to_owned(),
        };
        // Whether a precondition fails on the cache or in the store is a matter of time.
        let text = text.replace("Key: /registry/", "Key: /");
        ALLOCATED.replace_all(&text, address).into_owned()
    }
}

/// A refused patch is answered with the whole patched object as text, in an order that shows which
/// parts the server re-encoded: the order of fields is no part of the comparison.
fn sorted_patch(text: &str) -> String {
    const MARK: &str = "Invalid value: \"{";
    let Some(start) = text.find(MARK).map(|at| at + MARK.len() - 2) else {
        return text.to_owned();
    };
    let mut quoted = serde_json::Deserializer::from_str(&text[start..]).into_iter::<String>();
    let Some(Ok(inner)) = quoted.next() else {
        return text.to_owned();
    };
    let end = start + quoted.byte_offset();
    match serde_json::from_str::<Value>(&inner) {
        Ok(mut object) => {
            if let Some(Value::Array(owners)) = object.pointer_mut("/metadata/managedFields") {
                owners.sort_by_key(ToString::to_string);
            }
            format!("{}{object}{}", &text[..start], &text[end..])
        }
        Err(_) => text.to_owned(),
    }
}

/// The real server walks the fields of an applied object in the order of a Go map and leaves a map
/// at the first field it does not know: what it said or did not say of the fields beside that one
/// is left out, the rest is put in order.
fn typed_errors(text: &str) -> String {
    const UNKNOWN: &str = ": field not declared in schema";
    let Some((start, list)) = text.split_once("): errors:\n  ") else {
        return text.to_owned();
    };
    let mut lines: Vec<&str> = list.split("\n  ").collect();
    lines.sort_unstable();
    let holder = |line: &str| {
        let path = line.split_once(": ").map_or(line, |(path, _)| path);
        path.rsplit_once('.').map_or("", |(holder, _)| holder).to_owned()
    };
    let left: Vec<String> = lines
        .iter()
        .filter(|line| line.ends_with(UNKNOWN))
        .map(|line| holder(line))
        .collect();
    lines.retain(|line| {
        let inside = |from: &String| {
            let own = line.ends_with(UNKNOWN) && holder(line) == *from;
            !own && line.starts_with(&format!("{from}."))
        };
        !left.iter().any(inside)
    });
    match lines.as_slice() {
        [line] => format!("{start}): {line}"),
        lines => format!("{start}): errors:\n  {}", lines.join("\n  ")),
    }
}

/// The real server checks the fields of a custom resource in the order of a Go map: causes are put
/// into an order of their own, and the message only has to say the same as the causes.
fn unordered_causes(status: &mut Value) {
    let Some(causes) = status["details"]["causes"].as_array_mut() else {
        return;
    };
    let text = |cause: &Value, field: &str| cause[field].as_str().unwrap_or("").to_owned();
    let said: Vec<String> = causes
        .iter()
        .map(|cause| format!("{}: {}", text(cause, "field"), text(cause, "message")))
        .collect();
    causes.sort_by_key(ToString::to_string);
    let list = format!("[{}]", said.join(", "));
    if let Some(message) = status["message"].as_str()
        && said.len() > 1
    {
        status["message"] = json!(message.replace(&list, "<the causes>"));
    }
}

/// Managers are stored oldest first to the second, which two runs do not share: they are put into
/// an order of their own, and whether the server's order was a right one is said beside them.
fn managers(metadata: &mut Value) {
    let Some(entries) = metadata["managedFields"].as_array_mut() else {
        return;
    };
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or("").to_owned();
    let server = |entry: &Value| (text(entry, "operation"), text(entry, "time"), text(entry, "manager"));
    let sorted = entries.windows(2).all(|pair| server(&pair[0]) <= server(&pair[1]));
    entries.sort_by_key(|entry| ["manager", "operation", "subresource", "apiVersion"].map(|field| text(entry, field)));
    for entry in entries.iter_mut() {
        if entry["time"].is_string() {
            entry["time"] = json!("<time>");
        }
        tidy(entry);
    }
    metadata["managedFieldsSorted"] = json!(sorted);
}

/// Indexing a `Value` to write leaves nulls behind; none of these is ever null on the wire.
fn tidy(value: &mut Value) {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, inner| !inner.is_null());
    }
}

fn text_of<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or("")
}

fn number(value: &Value) -> Option<u64> {
    value.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_structure_that_may_not_change_is_masked() {
        let shown = r#"spec.template: Invalid value: {"Spec":{"Containers":[]}}: field is immutable"#;
        let masked = "spec.template: Invalid value: <structure>: field is immutable";
        assert_eq!(without_immutable(shown), masked);
        let other = r#"spec.a: Invalid value: {"b":1}: must not be; "#;
        let both = format!("{other}{shown}");
        assert_eq!(without_immutable(&both), format!("{other}{masked}"));
    }
}
