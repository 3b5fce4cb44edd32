//! Normalizes request paths, so that the path that is matched is the path that the origin gets. A path that servers are
//! known to interpret differently is rejected, or must select the same rule in every interpretation. Pure.

use std::borrow::Cow;

/// How many more times an origin may decode a path. Paths encoded more often are rejected.
const MAX_DECODE_LAYERS: usize = 3;

/// Characters that Unicode normalization turns into dots, a slash or a semicolon.
const LOOKALIKES: [(&str, &str); 9] = [
    ("%EF%BC%8E", "."),
    ("%EF%B9%92", "."),
    ("%E2%80%A4", "."),
    ("%E2%80%A5", ".."),
    ("%EF%B8%B0", ".."),
    ("%EF%BC%8F", "/"),
    ("%EF%BC%BC", "/"),
    ("%EF%BC%9B", ";"),
    ("%EF%B9%94", ";"),
];

/// The path with unreserved characters decoded, other escapes in upper case, slashes merged and dot segments
/// resolved, in this order.
///
/// # Errors
/// The reason why the path is ambiguous or invalid.
pub(crate) fn normalize(path: &str) -> Result<Cow<'_, str>, &'static str> {
    if path.is_empty() {
        return Ok(Cow::Owned("/".to_owned()));
    }
    if !path.starts_with('/') {
        return Err("does not begin with /");
    }
    let pairs = path.as_bytes().windows(2);
    let plain = path.bytes().all(|byte| is_plain(byte) || byte == b'/');
    if plain && !pairs.into_iter().any(|it| matches!(it, b"//" | b"/.")) {
        return Ok(Cow::Borrowed(path));
    }
    let path = normalize_escapes(path)?;
    // Checked before dot segments are resolved, because servers disagree about what they remove.
    for segment in path.split('/') {
        alternative_paths(segment)?;
    }
    Ok(Cow::Owned(resolve_dots(&path)))
}

/// Another interpretation of a normalized path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AlternativePath {
    /// With every separator and every character that could occur in a rule decoded.
    pub(crate) path: String,
    /// Without path parameters (`;x`), and possibly without what follows an encoded `?` or `#`.
    pub(crate) cut: bool,
}

/// The other interpretations of a normalized path: with `%2F` as a slash, without path parameters, and
/// decoded several times.
///
/// # Errors
/// An interpretation has a dot segment or another invalid sequence.
pub(crate) fn alternative_paths(path: &str) -> Result<Vec<AlternativePath>, &'static str> {
    let mut readings = Vec::new();
    if !path.contains(['%', ';']) {
        return Ok(readings);
    }
    let mut layer = path.to_owned();
    for _ in 0..=MAX_DECODE_LAYERS {
        let whole = decode_reserved(&layer);
        let cut = without_parameters(&whole);
        let short = without_parameters(without_query(&whole));
        // Some servers remove parameters before they decode: `;%2Fx` ends at the next slash.
        let bare = decode_reserved(&without_parameters(&layer));
        let bare = (bare != cut).then_some((bare, true));
        let all = [(whole, false), (cut, true), (short, true)];
        for (path, cut) in all.into_iter().chain(bare) {
            if path.split('/').any(is_dots) {
                return Err("has an encoded dot segment");
            }
            let path = resolve_dots(&path);
            readings.push(AlternativePath { path, cut });
        }
        let next = normalize_escapes(&decode_layer(&layer))?;
        if next == layer {
            return Ok(readings);
        }
        layer = next;
    }
    Err("is encoded too many times")
}

/// A normalized path, or a rule's path, with reserved characters and lookalikes decoded.
pub(crate) fn decode_reserved(path: &str) -> String {
    let mut parts = path.split('%');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let byte = part.get(..2).and_then(|it| u8::from_str_radix(it, 16).ok());
        match byte.filter(|byte| is_plain(*byte) || matches!(byte, b'/' | b';')) {
            Some(byte) => {
                text.push(char::from(byte));
                text.push_str(&part[2..]);
            }
            None => {
                text.push('%');
                text.push_str(part);
            }
        }
    }
    LOOKALIKES
        .iter()
        .fold(text, |text, (from, to)| match text.contains(from) {
            true => text.replace(from, to),
            false => text,
        })
}

/// Characters without special meaning in a segment. Some servers treat `;` as the start of a parameter.
fn is_plain(byte: u8) -> bool {
    is_unreserved(byte) || b"!$&'()*+,=:@".contains(&byte)
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// Every character in canonical form: decoded, or escaped in upper case.
fn normalize_escapes(path: &str) -> Result<String, &'static str> {
    const HEX: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F',
    ];
    let mut text = String::with_capacity(path.len());
    let mut bytes = path.bytes();
    let mut before = 0;
    while let Some(first) = bytes.next() {
        let escape = first == b'%';
        let byte = if escape {
            let high = hex_digit(bytes.next()).ok_or(INVALID_ESCAPE)?;
            high << 4 | hex_digit(bytes.next()).ok_or(INVALID_ESCAPE)?
        } else {
            first
        };
        match byte {
            0..=0x1f | 0x7f => return Err("has a control character"),
            b'\\' => return Err("has a backslash"),
            0xc0 | 0xc1 => return Err(OVERLONG_SEQUENCE),
            0x80..=0xbf if is_overlong(before, byte) => return Err(OVERLONG_SEQUENCE),
            _ => {}
        }
        let itself = !escape && (is_plain(byte) || matches!(byte, b'/' | b';'));
        if is_unreserved(byte) || itself {
            text.push(char::from(byte));
        } else {
            let digits = [byte >> 4, byte & 15].map(|it| HEX[usize::from(it)]);
            text.extend(['%', digits[0], digits[1]]);
        }
        before = byte;
    }
    Ok(text)
}

const INVALID_ESCAPE: &str = "has an invalid percent escape";
const OVERLONG_SEQUENCE: &str = "has an overlong UTF-8 sequence";

fn hex_digit(byte: Option<u8>) -> Option<u8> {
    let digit = char::from(byte?).to_digit(16)?;
    u8::try_from(digit).ok()
}

/// Whether two bytes begin an overlong UTF-8 sequence, such as `%E0%80%AE`.
fn is_overlong(lead: u8, next: u8) -> bool {
    match lead {
        0xe0 => next < 0xa0,
        0xf0 => next < 0x90,
        lead => lead >= 0xf8,
    }
}

/// Merges slashes, then resolves dot segments; the root has no parent.
fn resolve_dots(path: &str) -> String {
    let mut kept = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    let mut text = format!("/{}", kept.join("/"));
    let last = path.rsplit('/').next();
    if !kept.is_empty() && matches!(last, Some("" | "." | "..")) {
        text.push('/');
    }
    text
}

/// Whether a server that trims spaces would treat a segment as a dot segment.
fn is_dots(segment: &str) -> bool {
    let mut inner = segment;
    while let Some(rest) = inner.strip_prefix("%20").or(inner.strip_suffix("%20")) {
        inner = rest;
    }
    matches!(inner, "." | "..")
}

fn without_query(path: &str) -> &str {
    let end = path.find("%3F").into_iter().chain(path.find("%23")).min();
    &path[..end.unwrap_or(path.len())]
}

fn without_parameters(path: &str) -> String {
    let segments = path.split('/');
    let cut = segments.map(|it| it.split(';').next().unwrap_or_default());
    cut.collect::<Vec<_>>().join("/")
}

/// Decodes one layer of `%25`.
fn decode_layer(path: &str) -> String {
    let mut parts = path.split("%25");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.as_bytes().get(..2);
        let escape = digits.is_some_and(|it| it.iter().all(u8::is_ascii_hexdigit));
        text.push_str(if escape { "%" } else { "%25" });
        text.push_str(part);
    }
    text
}

#[cfg(test)]
mod tests;
