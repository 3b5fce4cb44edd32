//! JSON as Go's encoder writes it: what a browser could take for markup is escaped.
//!
//! Only how text is written; which members there are and in what order is decided elsewhere.

use std::io::{self, Write};

use memchr::{memchr, memchr3};
use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};

/// Room for most objects, so that writing one does not begin small and grow.
const USUAL: usize = 4096;
/// The first byte of U+2028 and U+2029, which end a line in JavaScript.
const SEPARATOR: u8 = 0xE2;

/// JSON on one line.
pub fn compact(what: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(USUAL);
    append(&mut bytes, what);
    bytes
}

/// The same behind what is there already.
pub fn append(bytes: &mut Vec<u8>, what: &impl Serialize) {
    write(bytes, Go(CompactFormatter), what);
}

/// Indented JSON.
pub fn pretty(what: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(USUAL);
    write(&mut bytes, Go(PrettyFormatter::new()), what);
    bytes
}

fn write<F: Formatter>(bytes: &mut Vec<u8>, formatter: Go<F>, what: &impl Serialize) {
    let mut serializer = Serializer::with_formatter(bytes, formatter);
    let written = what.serialize(&mut serializer);
    written.expect("a JSON value is always written");
}

/// A formatter whose strings are Go's.
struct Go<F>(F);

impl<F: Formatter> Formatter for Go<F> {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let bytes = fragment.as_bytes();
        if memchr3(b'<', b'>', b'&', bytes).is_none() && memchr(SEPARATOR, bytes).is_none() {
            return writer.write_all(bytes);
        }
        let mut rest = fragment;
        while let Some((at, escape)) = first_to_escape(rest) {
            writer.write_all(&rest.as_bytes()[..at])?;
            writer.write_all(escape)?;
            let length = rest[at..].chars().next().map_or(1, char::len_utf8);
            rest = &rest[at + length..];
        }
        writer.write_all(rest.as_bytes())
    }

    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

fn first_to_escape(text: &str) -> Option<(usize, &'static [u8])> {
    text.char_indices().find_map(|(at, char)| {
        let escape: &[u8] = match char {
            '<' => b"\\u003c",
            '>' => b"\\u003e",
            '&' => b"\\u0026",
            '\u{2028}' => b"\\u2028",
            '\u{2029}' => b"\\u2029",
            _ => return None,
        };
        Some((at, escape))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_looks_like_markup_is_escaped_and_reads_back() {
        let text = "<a href=\"x\">\u{2028}é & \u{2013}\u{2029}\n</a>";
        let value = json!({ "<k>": text });
        let written = String::from_utf8(compact(&value)).expect("text");
        assert_eq!(
            written,
            r#"{"\u003ck\u003e":"\u003ca href=\"x\"\u003e\u2028é \u0026 –\u2029\n\u003c/a\u003e"}"#
        );
        let read: Value = serde_json::from_str(&written).expect("JSON");
        assert_eq!(read, value);
    }

    #[test]
    fn indentation_is_kept() {
        let written = String::from_utf8(pretty(&json!({ "a": [1, {}], "b": [] }))).expect("text");
        assert_eq!(written, "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}");
    }
}
