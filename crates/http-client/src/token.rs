//! An API token, and how every part of it is kept out of logs and messages.
//!
//! It can be compared, hashed and sent. It cannot be printed.

use std::fmt;
use std::sync::Arc;

use http::HeaderValue;
use sha2::{Digest, Sha256};

/// This many characters in a row that match a token are not a coincidence.
const MIN_SECRET_RUN: usize = 8;

/// A token of another system's API.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiToken(Arc<str>);

impl ApiToken {
    /// The token in `text`, without surrounding whitespace. `None` if the rest is empty or cannot be
    /// sent in a header.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        let fits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| Self(text.into()))
    }

    /// A digest that identifies the token without revealing it.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.0.as_bytes()).into()
    }

    /// The value of a header that carries it after `prefix`, such as `Bearer `.
    #[must_use]
    pub fn to_header_value(&self, prefix: &'static str) -> HeaderValue {
        let mut value =
            HeaderValue::from_str(&format!("{prefix}{}", self.0)).expect("a token is visible ASCII: Token::new");
        value.set_sensitive(true);
        value
    }

    /// The text with every part of the token redacted, because an error message may contain its first half. A
    /// part is eight characters in a row, or half of a token that is shorter than sixteen.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        let secret = self.0.as_bytes();
        let least = (secret.len() / 2).clamp(1, MIN_SECRET_RUN);
        let mut clean = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let run = longest_match(secret, rest.as_bytes());
            if run >= least {
                clean.push_str("[redacted]");
                // The match is ASCII, so this is a character boundary.
                rest = &rest[run..];
            } else {
                clean.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
        clean
    }
}

/// The length of the prefix of `text` that occurs somewhere in `secret`.
fn longest_match(secret: &[u8], text: &[u8]) -> usize {
    let run = |from: usize| {
        let pairs = secret[from..].iter().zip(text);
        pairs.take_while(|(secret, text)| secret == text).count()
    };
    (0..secret.len()).map(run).max().unwrap_or(0)
}

impl fmt::Debug for ApiToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECRET: &str = "jEheVytlAoFl7F8MqUQ7jAo2hOXASztX0123456789abcdefghijklmnopqrstuv";

    #[test]
    fn debug_output_is_redacted() {
        let token = ApiToken::new(SECRET).expect("a token");
        assert_eq!(format!("{token:?}"), "Token");
        assert_eq!(format!("{:?}", token.to_header_value("Bearer ")), "Sensitive");
    }

    #[test]
    fn surrounding_whitespace_is_trimmed() {
        assert_eq!(ApiToken::new(" abc\n"), ApiToken::new("abc"));
        for text in ["", " \n", "a b", "a\nb", "tok\u{e9}n"] {
            assert_eq!(ApiToken::new(text), None, "{text:?}");
        }
    }

    #[test]
    fn half_of_the_token_in_an_error_is_redacted() {
        let token = ApiToken::new(SECRET).expect("a token");
        let text = format!("limit of 3600 for token {}... reached", &SECRET[..32]);
        assert_eq!(token.redact(&text), "limit of 3600 for token [redacted]... reached");
    }

    proptest! {
        #[test]
        fn no_run_of_eight_survives(
            secret in "[a-zA-Z0-9]{16,64}", from in 0usize..64, many in 0usize..64,
            before in "\\PC{0,20}", after in "\\PC{0,20}",
        ) {
            let token = ApiToken::new(&secret).expect("a token");
            let from = from.min(secret.len());
            let part = &secret[from..(from + many).min(secret.len())];
            let clean = token.redact(&format!("{before}{part}{after}"));
            for at in 0..=secret.len() - MIN_SECRET_RUN {
                prop_assert!(!clean.contains(&secret[at..at + MIN_SECRET_RUN]), "{clean}");
            }
        }

        #[test]
        fn half_of_a_short_one_does_not_survive(secret in "[g-z0-9]{2,15}") {
            let token = ApiToken::new(&secret).expect("a token");
            let clean = token.redact(&format!("({}...)", &secret[..secret.len().div_ceil(2)]));
            prop_assert_eq!(clean, "([redacted]...)");
        }
    }
}
