//! YAML bodies as JSON, and YAML mistakes in the words of the parser the server uses.
//!
//! Only the first document counts, as there.

use bytes::Bytes;
use serde::de::IgnoredAny;
use serde_json::Value;

use aplomb_apimachinery::json;

/// Which line a message names, seen from the line our parser stopped at (1 is the first).
#[derive(Clone, Copy)]
enum Line {
    /// None.
    Unsaid,
    /// That line.
    Same,
    /// The one before: the other parser counts from 0 there.
    Before,
    /// The one after.
    After,
}

/// A sign of our parser's message, the other parser's words and the line it names.
const WORDS: &[(&str, &str, Line)] = &[
    (
        "mapping values",
        "mapping values are not allowed in this context",
        Line::Same,
    ),
    (
        "expected '-' indicator",
        "did not find expected '-' indicator",
        Line::Before,
    ),
    ("multiline quoted scalar", "found unexpected end of stream", Line::Same),
    ("unterminated", "found unexpected end of stream", Line::Same),
    ("misplaced bracket", "did not find expected node content", Line::Before),
    ("simple key expected", "could not find expected ':'", Line::After),
    (
        "merge value",
        "map merge requires map or sequence of maps as the value",
        Line::Unsaid,
    ),
    ("cannot deserialize null", "did not find expected key", Line::Before),
    (
        "unexpected character: `\\u",
        "control characters are not allowed",
        Line::Unsaid,
    ),
    (
        "unexpected character",
        "found character that cannot start any token",
        Line::Same,
    ),
    (
        "cannot start any token",
        "found character that cannot start any token",
        Line::Same,
    ),
    ("tab", "found character that cannot start any token", Line::Same),
];

/// Turns YAML into JSON.
///
/// # Errors
/// What is wrong, beginning with `yaml:`.
pub(super) fn to_json(raw: &Bytes) -> Result<Bytes, String> {
    let json = raw.trim_ascii_start().starts_with(b"{");
    // The quicker reader settles most bodies, and not all: ours goes deeper.
    if json && (serde_json::from_slice::<IgnoredAny>(raw).is_ok() || json::parse(raw).is_ok()) {
        return Ok(raw.clone());
    }
    let text = String::from_utf8_lossy(raw);
    let text = first_document(&text);
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    if first.starts_with('\t') {
        return Err("yaml: found character that cannot start any token".to_owned());
    }
    let options = serde_saphyr::options! {
        budget: None,
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::LastWins,
        with_snippet: false,
    };
    let value: Value = serde_saphyr::from_str_with_options(text, options).map_err(|error| complaint(text, &error))?;
    Ok(value.to_string().into())
}

/// What is said about a key that is written twice in one mapping; nothing when none is.
pub(super) fn duplicate_key(raw: &Bytes) -> Option<String> {
    let text = String::from_utf8_lossy(raw);
    let text = first_document(&text);
    let options = serde_saphyr::options! {
        budget: None,
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::Error,
        with_snippet: false,
    };
    let error = serde_saphyr::from_str_with_options::<Value>(text, options).err()?;
    let line = error.location()?.line();
    let written = text.lines().nth(usize::try_from(line).ok()?.checked_sub(1)?)?;
    let key = written.trim_start().trim_start_matches("- ");
    let key = key.split(':').next()?.trim().trim_matches(['"', '\'']);
    let key = aplomb_apimachinery::field::go_quote(key);
    Some(format!("line {line}: key {key} already set in map"))
}

/// The text up to the line that begins a second document.
fn first_document(text: &str) -> &str {
    let mut seen = false;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let marker = line.trim_end() == "---" || line.starts_with("--- ");
        if marker && seen {
            return &text[..at];
        }
        seen |= marker || !(line.trim().is_empty() || line.starts_with(['#', '%']));
        at += line.len();
    }
    text
}

fn complaint(text: &str, error: &serde_saphyr::Error) -> String {
    let ours = error.to_string();
    let line = error.location().map_or(1, |location| location.line());
    let column = error.location().map_or(1, |location| location.column());
    if let Some(rest) = ours.strip_prefix("unclosed bracket '") {
        return unclosed(text, rest.starts_with('['), line);
    }
    if ours.contains("unknown anchor") {
        return format!("yaml: unknown anchor '{}' referenced", anchor(text, line, column));
    }
    let known = WORDS.iter().find(|(sign, ..)| ours.to_lowercase().contains(sign));
    let (words, named) = match known {
        Some((_, words, Line::Unsaid)) => (*words, 0),
        Some((_, words, Line::Before)) => (*words, line - 1),
        Some((_, words, Line::After)) => (*words, line + 1),
        Some((_, words, Line::Same)) if line == 1 => (*words, 0),
        Some((_, words, Line::Same)) => (*words, line),
        None => (ours.lines().next().unwrap_or_default(), if line > 1 { line } else { 0 }),
    };
    if named == 0 {
        format!("yaml: {words}")
    } else {
        format!("yaml: line {named}: {words}")
    }
}

/// A bracket nobody closed: the other parser misses the next item, or the first.
fn unclosed(text: &str, sequence: bool, line: u64) -> String {
    let bracket = if sequence { '[' } else { '{' };
    let content = text.rsplit(bracket).next().unwrap_or_default();
    let end = text.matches('\n').count().max(1);
    let named = if line > 1 {
        usize::try_from(line - 1).unwrap_or(end)
    } else {
        end
    };
    let wanting = content.trim_end().is_empty() || content.trim_end().ends_with([':', ',']);
    let words = match (wanting, sequence) {
        (true, _) => "did not find expected node content",
        (false, true) => "did not find expected ',' or ']'",
        (false, false) => "did not find expected ',' or '}'",
    };
    format!("yaml: line {named}: {words}")
}

/// The name of the anchor an alias at a place refers to.
fn anchor(text: &str, line: u64, column: u64) -> &str {
    let skip = |number: u64| usize::try_from(number).unwrap_or(1).saturating_sub(1);
    let line = text.lines().nth(skip(line)).unwrap_or_default();
    let rest = line.get(skip(column)..).unwrap_or_default().trim_start_matches('*');
    rest.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_')
        .next()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        to_json(&Bytes::copy_from_slice(text.as_bytes())).expect_err("refused")
    }

    #[test]
    fn mistakes_are_named_in_the_other_parsers_words() {
        let cases = [
            ("a: [b\n", "yaml: line 1: did not find expected ',' or ']'"),
            ("{", "yaml: line 1: did not find expected node content"),
            ("a: b: c", "yaml: mapping values are not allowed in this context"),
            (
                "x: 1\na: b: c\n",
                "yaml: line 2: mapping values are not allowed in this context",
            ),
            ("\tfoo", "yaml: found character that cannot start any token"),
            ("- a\nb: c\n", "yaml: line 1: did not find expected '-' indicator"),
            ("a: 'b\n", "yaml: line 2: found unexpected end of stream"),
            ("a: *x\n", "yaml: unknown anchor 'x' referenced"),
            ("a: \u{1}b\n", "yaml: control characters are not allowed"),
        ];
        for (text, want) in cases {
            assert_eq!(refused(text), want, "{text:?}");
        }
    }

    #[test]
    fn only_the_first_document_counts() {
        let json = to_json(&Bytes::from_static(b"# one\n---\na: yes\n---\nb: 2\n")).expect("read");
        assert_eq!(json.as_ref(), br#"{"a":true}"#);
    }
}
