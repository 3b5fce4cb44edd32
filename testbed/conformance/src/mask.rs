//! Makes two servers' answers comparable: what cannot be equal is replaced by what must be.
//!
//! Versions, UIDs and generated names become numbers in order of first appearance, so that "the
//! same version as before" still shows; times keep their precision. Nothing else may be hidden
//! here: a mask that is too wide makes the suite blind.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Map, Value, json};

/// Remembers what it has replaced, for one case on one server.
#[derive(Debug)]
pub struct Mask {
    versions: BTreeMap<String, usize>,
    words: BTreeMap<String, String>,
    uids: usize,
    uid: Regex,
    time: Regex,
    micro_time: Regex,
    too_old: Regex,
    too_large: Regex,
    precondition: Regex,
    port: Regex,
    quoted: Regex,
    yaml: Regex,
    struct_diff: Regex,
}

impl Default for Mask {
    fn default() -> Self {
        let regex = |text| Regex::new(text).expect("a constant pattern is valid");
        Self {
            versions: BTreeMap::new(),
            words: BTreeMap::new(),
            uids: 0,
            uid: regex(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
            time: regex(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ"),
            micro_time: regex(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"),
            too_old: regex(r"too old resource version: \d+ \(\d+\)"),
            too_large: regex(r"Too large resource version: \d+, current: \d+"),
            precondition: regex(r"(ResourceVersion in (?:the precondition|record) \()\d+"),
            quoted: regex(r#"(resourceVersion\\*":\\*")\d+"#),
            yaml: regex(r"yaml: (?:line \d+: )?[^()]*"),
            struct_diff: regex(r"(?s)\n@@ .*"),
            port: regex(r"127\.0\.0\.1:\d+"),
        }
    }
}

impl Mask {
    /// The comparable form of an event: a bookmark is as new as the store.
    pub fn event(&mut self, kind: &str, object: &Value) -> Value {
        let mut object = object.clone();
        if kind == "BOOKMARK" {
            object["metadata"]["resourceVersion"] = json!("0");
        }
        json!({ "type": kind, "object": self.apply(&object) })
    }

    /// Replaces `word` by `by` from here on, everywhere.
    pub fn mask_word(&mut self, word: &str, by: &str) {
        if !word.is_empty() {
            self.words.insert(word.to_owned(), format!("<{by}>"));
        }
    }

    /// The comparable form of a body.
    pub fn apply(&mut self, value: &Value) -> Value {
        match value {
            Value::Object(map) => Value::Object(self.object(map)),
            Value::Array(items) => items.iter().map(|item| self.apply(item)).collect(),
            Value::String(text) => json!(self.text(text)),
            other => other.clone(),
        }
    }

    fn object(&mut self, map: &Map<String, Value>) -> Map<String, Value> {
        let mut masked = self.members(map);
        if map.get("kind").is_some_and(|kind| kind == "Status") {
            sort_causes(&mut masked);
        }
        masked
    }

    fn members(&mut self, map: &Map<String, Value>) -> Map<String, Value> {
        let is_list = map.contains_key("items") && map.contains_key("metadata");
        map.iter()
            .map(|(key, value)| {
                let masked = match (key.as_str(), value) {
                    ("resourceVersion", Value::String(version)) => json!(self.version(version)),
                    ("continue", Value::String(token)) if !token.is_empty() => json!("<continue>"),
                    ("managedFields", Value::Array(entries)) => self.managers(entries),
                    ("metadata", Value::Object(meta)) if is_list => self.list_metadata(meta),
                    _ => self.apply(value),
                };
                (self.text(key), masked)
            })
            .collect()
    }

    /// Entries are ordered by time, in whole seconds that two servers do not share.
    fn managers(&mut self, entries: &[Value]) -> Value {
        let mut masked: Vec<_> = entries.iter().map(|entry| self.apply(entry)).collect();
        masked.sort_by_key(ToString::to_string);
        masked.into()
    }

    /// A list is as new as the store, which other cases write to at the same time.
    fn list_metadata(&mut self, meta: &Map<String, Value>) -> Value {
        let mut meta = meta.clone();
        let version = meta.remove("resourceVersion");
        let mut masked = self.object(&meta);
        masked.extend(version.map(|_| ("resourceVersion".to_owned(), json!("<list>"))));
        Value::Object(masked)
    }

    fn version(&mut self, version: &str) -> String {
        if version.is_empty() || version == "0" {
            return version.to_owned();
        }
        let next = self.versions.len() + 1;
        let number = *self.versions.entry(version.to_owned()).or_insert(next);
        format!("<version {number}>")
    }

    /// The comparable form of a text.
    pub fn text(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for found in self.uid.find_iter(&text.clone()) {
            let uid = found.as_str();
            if !self.words.contains_key(uid) {
                self.uids += 1;
                self.words.insert(uid.to_owned(), format!("<uid {}>", self.uids));
            }
        }
        for (word, by) in &self.words {
            if text.contains(word.as_str()) {
                text = text.replace(word.as_str(), by);
            }
        }
        let replacements = [
            (&self.micro_time, "<microseconds>"),
            (&self.time, "<seconds>"),
            (&self.too_old, "too old resource version: <old> (<oldest>)"),
            (
                &self.too_large,
                "Too large resource version: <large>, current: <current>",
            ),
            (&self.precondition, "$1<version>"),
            (&self.quoted, "$1<version>"),
            // The YAML library's own words, and a diff of the server's internal structures.
            (&self.yaml, "yaml: <mistake> "),
            (&self.struct_diff, ""),
            (&self.port, "127.0.0.1:<port>"),
        ];
        for (pattern, by) in replacements {
            if let std::borrow::Cow::Owned(changed) = pattern.replace_all(&text, by) {
                text = changed;
            }
        }
        text
    }
}

/// Several causes come in the order of a Go map, in `details` and in the message alike.
fn sort_causes(status: &mut Map<String, Value>) {
    let causes = status.get_mut("details").and_then(|details| details.get_mut("causes"));
    let Some(causes) = causes.and_then(Value::as_array_mut).filter(|causes| causes.len() > 1) else {
        return;
    };
    causes.sort_by_key(ToString::to_string);
    if let Some(Value::String(message)) = status.get_mut("message") {
        let mut parts: Vec<&str> = message.split(['[', ']', ',', '\n']).map(str::trim).collect();
        parts.sort_unstable();
        *message = parts.join(" / ");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_versions_stay_equal_and_different_ones_different() {
        let mut mask = Mask::default();
        let objects = json!([
            { "metadata": { "resourceVersion": "105" } },
            { "metadata": { "resourceVersion": "99" } },
            { "metadata": { "resourceVersion": "105" } },
        ]);
        let masked = mask.apply(&objects);
        assert_eq!(masked[0], masked[2]);
        assert_ne!(masked[0], masked[1]);
    }

    #[test]
    fn the_order_of_causes_does_not_count_but_each_cause_does() {
        let status = |one: &str, two: &str| {
            json!({
                "kind": "Status", "message": format!("is invalid: [{one}: no, {two}: no]"),
                "details": { "causes": [{ "field": one }, { "field": two }] },
            })
        };
        let mut mask = Mask::default();
        assert_eq!(mask.apply(&status("a", "b")), mask.apply(&status("b", "a")));
        assert_ne!(mask.apply(&status("a", "b")), mask.apply(&status("a", "c")));
    }

    #[test]
    fn the_precision_of_a_time_shows() {
        let mut mask = Mask::default();
        assert_eq!(mask.text("at 2026-01-02T03:04:05Z"), "at <seconds>");
        assert_eq!(mask.text("2026-01-02T03:04:05.000006Z"), "<microseconds>");
        assert_eq!(mask.text("2026-01-02T03:04:05.06Z"), "2026-01-02T03:04:05.06Z");
    }

    #[test]
    fn a_uid_is_the_same_word_in_a_key_and_in_a_text() {
        let mut mask = Mask::default();
        let uid = "0a1b2c3d-0000-4000-8000-0123456789ab";
        let masked = mask.apply(&json!({ format!("k:{uid}"): format!("uid {uid}") }));
        assert_eq!(masked, json!({ "k:<uid 1>": "uid <uid 1>" }));
    }
}
