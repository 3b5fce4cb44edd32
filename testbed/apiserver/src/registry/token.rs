//! Continue tokens: where a list goes on, and at which version.

use base64::Engine;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD, URL_SAFE_NO_PAD};
use serde_json::Value;

use aplomb_apimachinery::json;

const VERSION: &str = "meta.k8s.io/v1";

/// Bits left over in the last character are ignored, as Go does.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::URL_SAFE,
    NO_PAD.with_decode_allow_trailing_bits(true),
);

/// The place a list goes on from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// The version of the first page; negative for "whatever is now".
    pub(super) revision: i64,
    /// The first key of the next page, below the prefix of the list.
    pub(super) start: String,
}

impl Token {
    /// The token after `last`, a key below the prefix of the list.
    pub(super) fn after(last: &str, revision: i64) -> Self {
        Self {
            revision,
            start: format!("{last}\u{0}"),
        }
    }

    pub(super) fn encode(&self) -> String {
        let start = Value::from(format!("/{}", self.start));
        let text = format!(r#"{{"v":"{VERSION}","rv":{},"start":{start}}}"#, self.revision);
        URL_SAFE_NO_PAD.encode(text)
    }

    /// Reads a token; the server's message when it is none.
    pub(super) fn decode(text: &str) -> Result<Self, String> {
        Self::read(text).map_err(|why| format!("continue key is not valid: {why}"))
    }

    fn read(text: &str) -> Result<Self, String> {
        let bytes = LENIENT.decode(text).map_err(|error| match error {
            base64::DecodeError::InvalidByte(at, _) => {
                format!("illegal base64 data at input byte {at}")
            }
            _ => format!("illegal base64 data at input byte {}", text.len()),
        })?;
        let value = json::parse(&bytes)?.value;
        let version = value.get("v").and_then(Value::as_str).unwrap_or_default();
        if version != VERSION {
            return Err(format!("server does not recognize this encoded version {version}"));
        }
        let revision = value.get("rv").and_then(Value::as_i64).unwrap_or(0);
        if revision == 0 {
            return Err(format!("incorrect encoded start resourceVersion (version {VERSION})"));
        }
        let start = value.get("start").and_then(Value::as_str).unwrap_or_default();
        if start.is_empty() {
            return Err(format!("encoded start key empty (version {VERSION})"));
        }
        let key = start.strip_prefix('/').unwrap_or(start);
        let clean = !key.is_empty() && key.split('/').all(|part| !matches!(part, "" | "." | ".."));
        if !clean {
            return Err(start.to_owned());
        }
        Ok(Self {
            revision,
            start: key.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_token_comes_back_as_it_was() {
        let token = Token::after("ns/a", 365);
        assert_eq!(Token::decode(&token.encode()), Ok(token.clone()));
        let text = URL_SAFE_NO_PAD.decode(token.encode()).expect("our own encoding");
        assert_eq!(text, br#"{"v":"meta.k8s.io/v1","rv":365,"start":"/ns/a\u0000"}"#);
    }

    #[test]
    fn other_tokens_are_refused_in_the_servers_words() {
        let encode = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let cases = [
            ("abc".to_owned(), "invalid character 'i' looking for beginning of value"),
            (encode(json!({})), "server does not recognize this encoded version "),
            (
                encode(json!({"v": VERSION})),
                "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ),
            (encode(json!({"v": VERSION, "rv": 1, "start": "../a"})), "../a"),
        ];
        for (text, expected) in cases {
            let error = Token::decode(&text).expect_err("no token");
            assert_eq!(error, format!("continue key is not valid: {expected}"));
        }
    }
}
