//! Reads JSON as the server does: its error texts, duplicate fields noticed, numbers normalised.
//!
//! serde_json would do the reading, but clients see the server's syntax errors and its duplicate
//! field warnings, and neither can be had from it. No schema is known here.

use serde_json::{Map, Number, Value};

/// The deepest nesting that is read. The real server takes 10000 levels; here every level costs the
/// stack of the thread that walks a value, and no document may end the process.
pub const DEEPEST: usize = 512;

/// How deeply a value is nested: 0 for a scalar.
pub fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// A document and the duplicate fields in it.
#[derive(Debug)]
pub struct Document {
    /// The value; of duplicate fields the last counts.
    pub value: Value,
    /// Paths of fields that occur twice, `spec.items[0].name`.
    pub duplicates: Vec<String>,
    /// The lines they are on when they occur again.
    pub lines: Vec<usize>,
}

/// Reads a document.
///
/// # Errors
/// The server's text for a syntax error.
pub fn parse(text: &[u8]) -> Result<Document, String> {
    let mut parser = Parser {
        text,
        at: 0,
        depth: 0,
        path: Vec::new(),
        duplicates: Vec::new(),
        lines: Vec::new(),
        fields: None,
    };
    parser.space();
    let value = parser.value()?;
    parser.space();
    if parser.at < text.len() {
        return Err(parser.unexpected("after top-level value"));
    }
    Ok(Document {
        value,
        duplicates: parser.duplicates,
        lines: parser.lines,
    })
}

/// The path of every field of a document in the order of the text, as far as it can be read.
pub fn fields(text: &[u8]) -> Vec<String> {
    let mut parser = Parser {
        text,
        at: 0,
        depth: 0,
        path: Vec::new(),
        duplicates: Vec::new(),
        lines: Vec::new(),
        fields: Some(Vec::new()),
    };
    parser.space();
    // A document with a mistake was refused before anybody asks for its fields.
    let _ = parser.value();
    parser.fields.unwrap_or_default()
}

enum Step<'a> {
    /// A key as it is written, quotes and all.
    Field(&'a [u8]),
    Index(usize),
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
    path: Vec<Step<'a>>,
    duplicates: Vec<String>,
    lines: Vec<usize>,
    /// Every field that was met; kept only when somebody wants to know.
    fields: Option<Vec<String>>,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn unexpected(&self, context: &str) -> String {
        match self.peek() {
            None => "unexpected end of JSON input".to_owned(),
            Some(byte) => format!("invalid character {} {context}", quote_char(byte)),
        }
    }

    fn value(&mut self) -> Result<Value, String> {
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => Ok(Value::String(unquote(self.quoted()?))),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true", Value::Bool(true)),
            Some(b'f') => self.literal("false", Value::Bool(false)),
            Some(b'n') => self.literal("null", Value::Null),
            _ => Err(self.unexpected("looking for beginning of value")),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Value, String>) -> Result<Value, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err("exceeded max depth".to_owned());
        }
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn object(&mut self) -> Result<Value, String> {
        self.at += 1;
        let mut map = Map::new();
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(map));
        }
        loop {
            let written = self.key()?;
            let key = unquote(written);
            self.path.push(Step::Field(written));
            let met = self.fields.is_some().then(|| self.path_text());
            if let (Some(fields), Some(met)) = (&mut self.fields, met) {
                fields.push(met);
            }
            if map.contains_key(&key) {
                self.duplicates.push(self.path_text());
                let before = &self.text[..self.at];
                self.lines
                    .push(before.iter().filter(|byte| **byte == b'\n').count() + 1);
            }
            let value = self.value()?;
            self.path.pop();
            map.insert(key, value);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::Object(map));
                }
                _ => return Err(self.unexpected("after object key:value pair")),
            }
        }
    }

    /// A key as it is written; what is next is its value.
    fn key(&mut self) -> Result<&'a [u8], String> {
        self.space();
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("looking for beginning of object key string"));
        }
        let written = self.quoted()?;
        self.space();
        if self.peek() != Some(b':') {
            return Err(self.unexpected("after object key"));
        }
        self.at += 1;
        self.space();
        Ok(written)
    }

    fn array(&mut self) -> Result<Value, String> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::Array(items));
        }
        loop {
            self.space();
            self.path.push(Step::Index(items.len()));
            items.push(self.value()?);
            self.path.pop();
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::Array(items));
                }
                _ => return Err(self.unexpected("after array element")),
            }
        }
    }

    fn literal(&mut self, word: &str, value: Value) -> Result<Value, String> {
        for expected in word.bytes() {
            if self.peek() != Some(expected) {
                let context = format!("in literal {word} (expecting {})", quote_char(expected));
                return Err(self.unexpected(&context));
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn digits(&mut self, context: &str) -> Result<(), String> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.unexpected(context));
        }
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Value, String> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        let text = String::from_utf8_lossy(&self.text[start..self.at]);
        to_number(&text).ok_or_else(|| format!("json: cannot unmarshal number {text} into Go value of type float64"))
    }

    /// A string as it is written, quotes and all.
    fn quoted(&mut self) -> Result<&'a [u8], String> {
        let start = self.at;
        self.at += 1;
        loop {
            let plain = self.text[self.at..].iter().take_while(|byte| is_plain(**byte));
            self.at += plain.count();
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    self.at += 1;
                    self.escape()?;
                }
                _ => return Err(self.unexpected("in string literal")),
            }
        }
        self.at += 1;
        Ok(&self.text[start..self.at])
    }

    fn escape(&mut self) -> Result<(), String> {
        match self.peek() {
            Some(b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => self.at += 1,
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                        return Err(self.unexpected("in \\u hexadecimal character escape"));
                    }
                    self.at += 1;
                }
            }
            _ => return Err(self.unexpected("in string escape code")),
        }
        Ok(())
    }

    fn path_text(&self) -> String {
        let mut text = String::new();
        for step in &self.path {
            match step {
                Step::Field(name) if text.is_empty() => text.push_str(&unquote(name)),
                Step::Field(name) => text.push_str(&format!(".{}", unquote(name))),
                Step::Index(index) => text.push_str(&format!("[{index}]")),
            }
        }
        text
    }
}

/// The server keeps integers apart from floats by how they are written: `2.0` is a float until it
/// is stored.
fn to_number(text: &str) -> Option<Value> {
    if let Ok(integer) = text.parse::<i64>() {
        return Some(integer.into());
    }
    let float: f64 = text.parse().ok().filter(|float: &f64| float.is_finite())?;
    Number::from_f64(float).map(Value::Number)
}

/// Whether a byte within a string stands for itself.
fn is_plain(byte: u8) -> bool {
    byte >= 0x20 && byte != b'"' && byte != b'\\'
}

/// The scanner has checked the form; broken UTF-8 and lone surrogates become U+FFFD, as in Go.
fn unquote(quoted: &[u8]) -> String {
    let inner = &quoted[1..quoted.len() - 1];
    if let Ok(text) = std::str::from_utf8(inner)
        && !text.contains('\\')
    {
        return text.to_owned();
    }
    let text = String::from_utf8_lossy(quoted);
    serde_json::from_str(&text).unwrap_or_else(|_| replace_lone_surrogates(&text))
}

fn replace_lone_surrogates(quoted: &str) -> String {
    let mut cleaned = String::with_capacity(quoted.len());
    let mut rest = quoted;
    while let Some(at) = rest.find("\\u") {
        // An escaped backslash before the `u` is not an escape of a character.
        let backslashes = rest[..at].bytes().rev().take_while(|byte| *byte == b'\\').count();
        cleaned.push_str(&rest[..at]);
        let one = &rest[at..(at + 6).min(rest.len())];
        let two = &rest[at..(at + 12).min(rest.len())];
        let pair = serde_json::from_str::<String>(&format!("\"{two}\"")).is_ok() && is_surrogate(one);
        let (taken, text) = if backslashes % 2 == 1 {
            (2, "\\u")
        } else if pair {
            (12, two)
        } else if is_surrogate(one) {
            (6, "\\ufffd")
        } else {
            (6, one)
        };
        cleaned.push_str(text);
        rest = &rest[at + taken..];
    }
    cleaned.push_str(rest);
    serde_json::from_str(&cleaned).unwrap_or_default()
}

fn is_surrogate(escape: &str) -> bool {
    let code = escape.get(2..6).and_then(|hex| u32::from_str_radix(hex, 16).ok());
    code.is_some_and(|code| (0xd800..0xe000).contains(&code))
}

fn quote_char(byte: u8) -> String {
    match byte {
        b'\'' => "'\\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        byte => {
            let quoted = crate::field::go_quote(&char::from(byte).to_string());
            format!("'{}'", &quoted[1..quoted.len() - 1])
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_are_worded_as_the_server_words_them() {
        let cases = [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            (
                "{\"a\":1,}",
                "invalid character '}' looking for beginning of object key string",
            ),
            ("nope", "invalid character 'o' in literal null (expecting 'u')"),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            ("{\"a\":1 2}", "invalid character '2' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("1 2", "invalid character '2' after top-level value"),
            ("01", "invalid character '1' after top-level value"),
            ("-x", "invalid character 'x' in numeric literal"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            ("1ex", "invalid character 'x' in exponent of numeric literal"),
            ("\"\\x\"", "invalid character 'x' in string escape code"),
            ("\"\n\"", "invalid character '\\n' in string literal"),
            ("'", "invalid character '\\'' looking for beginning of value"),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text.as_bytes()).expect_err(text), expected, "{text}");
        }
    }

    #[test]
    fn duplicates_are_named_by_path_and_the_last_counts() {
        let text = r#"{"a": 1, "l": [{"b": 1, "b": 2}], "a": 3}"#;
        let document = parse(text.as_bytes()).expect("well formed");
        assert_eq!(document.duplicates, ["l[0].b", "a"]);
        assert_eq!(document.value, json!({"a": 3, "l": [{"b": 2}]}));
    }

    #[test]
    fn numbers_are_what_they_are_written_as() {
        let document = parse(b"[1, 1.0, 1e3, 1.5, 9223372036854775808]").expect("well formed");
        assert_eq!(
            document.value,
            json!([1, 1.0, 1000.0, 1.5, 9_223_372_036_854_775_808.0])
        );
    }

    #[test]
    fn strings_keep_their_text_and_lose_lone_surrogates() {
        let document = parse(r#"["a\u00e9\ud83d\ude00", "\ud800x", "\\u"]"#.as_bytes());
        assert_eq!(
            document.expect("well formed").value,
            json!(["aé😀", "\u{fffd}x", "\\u"])
        );
    }

    #[test]
    fn a_deep_document_is_refused() {
        let text = "[".repeat(20_000);
        assert_eq!(parse(text.as_bytes()).expect_err("too deep"), "exceeded max depth");
    }
}
