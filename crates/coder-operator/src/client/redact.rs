//! Sanitizes text of other systems: no secrets, no line breaks, limited length.

use aplomb_http_client::ApiToken;

/// Maximum length of a message.
const MAX_LENGTH: usize = 300;
/// This many letters and digits in a row may be a key or half of a token. An ID has dashes in
/// between.
const MIN_SECRET_RUN: usize = 20;
const REDACTED: &str = "[redacted]";

/// Removes any part of the token and anything that looks like a key, joins lines, and cuts the
/// text. The cut is last: half of a secret would not be recognized.
pub(super) fn redact(token: &ApiToken, text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let text = redact_keys(&token.redact(&text));
    let text = text.trim();
    match text.char_indices().nth(MAX_LENGTH) {
        Some((end, _)) => text[..end].to_owned(),
        None => text.to_owned(),
    }
}

fn redact_keys(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let run = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        clean.push_str(if run < MIN_SECRET_RUN { &rest[..run] } else { REDACTED });
        let next = rest[run..].chars().next().map_or(0, char::len_utf8);
        clean.push_str(&rest[run..run + next]);
        rest = &rest[run + next..];
    }
    clean
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TOKEN: &str = "jEheVytlAo-FlF8MqUQ7jAo2hOXASztX";

    fn redacted(text: &str) -> String {
        redact(&ApiToken::new(TOKEN).expect("a token"), text)
    }

    #[test]
    fn a_reason_stays_as_it_is() {
        for text in [
            "Organization 6f1b9c1e-0c5e-4b8e-9d1a-0123456789ab not found",
            "You have exceeded the rate limit of 512 requests per 1m0s",
            "name: must be at most 64 characters",
        ] {
            assert_eq!(redacted(text), text);
        }
    }

    #[test]
    fn a_key_is_taken_out_wherever_it_stands() {
        let key = "a1B2".repeat(11);
        let text = format!("key={key} \u{e4}{key}\u{e4}({key})");
        let clean = "key=[redacted] \u{e4}[redacted]\u{e4}([redacted])";
        assert_eq!(redacted(&text), clean);
    }

    #[test]
    fn lines_are_made_one() {
        assert_eq!(redacted("a\r\nb\u{1b}[31m\0"), "a  b [31m");
    }

    proptest! {
        #[test]
        fn it_is_never_long_and_a_secret_never_survives(
            before in "\\PC{0,400}", after in "\\PC{0,50}", key in "[a-zA-Z0-9]{43}",
        ) {
            let clean = redacted(&format!("{before}{key}{after}{TOKEN}"));
            prop_assert!(clean.chars().count() <= MAX_LENGTH);
            for secret in [key.as_str(), TOKEN] {
                for at in 0..=secret.len() - MIN_SECRET_RUN {
                    prop_assert!(!clean.contains(&secret[at..at + MIN_SECRET_RUN]), "{}", clean);
                }
            }
        }
    }
}
