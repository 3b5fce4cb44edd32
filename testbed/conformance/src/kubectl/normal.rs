//! Hides what cannot be equal in the output of kubectl and helm: ages, versions, UIDs, addresses,
//! random names, column widths, the order of owners.

use std::path::Path;

use regex::Regex;

use super::owners;
use crate::mask::Mask;

/// Makes outputs of one script comparable.
#[derive(Debug)]
pub struct Normal {
    mask: Mask,
    /// The first hunk of `kubectl diff`; in errors the mask cuts off what looks like one.
    hunk: Regex,
    patterns: Vec<(Regex, &'static str)>,
}

/// What is replaced by what, in this order. The alphabet of generated names has no vowels.
const PATTERNS: [(&str, &str); 23] = [
    // Before the others: the number of a process may look like a port.
    (r"(?m)^[IEW]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ", "<log> "),
    (r"<uid \d+>", "<uid>"),
    // Fields in the order of Go types, where the box sorts them; GAPS.md says so.
    (r#"(patch: Invalid value: )"\{.*?\}": "#, "$1<object>: "),
    (r"(LIVE|MERGED|kubectl-edit)-\d+", "$1-<number>"),
    (r#"(resourceVersion: ?|Resource Version: +)"?\d+"?"#, "$1<version>"),
    (r#"("resourceVersion": ?)"\d+""#, "$1\"<version>\""),
    (r#"("serverAddress": ?")[0-9.:]+(?:<port>)?"#, "$1<address>"),
    (r"\b10\.0\.0\.\d+\b", "<address>"),
    (r"\b3[0-2]\d{3}\b", "<node port>"),
    (r"eyJ[\w-]+\.[\w-]+\.[\w-]+", "<token>"),
    (r"-[bcdfghjklmnpqrstvwxz2456789]{8,10}\b", "-<hash>"),
    (r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "-<random>"),
    (r"(hash[:=] ?)[bcdfghjklmnpqrstvwxz2456789]{5,10}\b", "$1<hash>"),
    (
        r"\b[A-Z][a-z]{2},? [A-Z]?[a-z]{0,2} ?\d+ ?[A-Z]?[a-z]{0,2} (?:\d{4} )?\d\d:\d\d:\d\d(?: [+-]\d{4})?(?: \d{4})?",
        "<date>",
    ),
    (
        r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?(?: [+-]\d{4} \w+)?",
        "<date>",
    ),
    (r"admin-uid\b", "admin"),
    (r"<(?:invalid|unknown)>|\b(?:\d+[smhd])+ ago\b", "<age>"),
    (r"\(x\d+ over [^)]*\)", ""),
    (r"(?m)(^|\s)(?:\d+[smhd])+(\s|$)", "$1<age>$2"),
    (r"(\d+)(?:\.\d+)?(?:ms|µs)\b", "<duration>"),
    (r"(?m)[ \t]+$", ""),
    (r"(\S)(?:  +|\t+)", "$1  "),
    (r"-{5,}", "-----"),
];

impl Default for Normal {
    fn default() -> Self {
        let compile = |(text, by)| (Regex::new(text).expect("a constant pattern is valid"), by);
        Self {
            mask: Mask::default(),
            hunk: Regex::new(r"(?m)^(\+\+\+ .*)\n@@ ").expect("a constant pattern is valid"),
            patterns: PATTERNS.map(compile).to_vec(),
        }
    }
}

impl Normal {
    /// Hides where the script runs.
    pub fn hide(&mut self, place: &Path) {
        self.mask.mask_word(&place.display().to_string(), "place");
    }

    /// The comparable form of an output.
    pub fn apply(&mut self, output: &str) -> String {
        let mut text = self.mask.text(&self.hunk.replace_all(output, "$1\n@ "));
        for (pattern, by) in &self.patterns {
            text = pattern.replace_all(&text, *by).into_owned();
        }
        owners::in_order(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(text: &str) -> String {
        Normal::default().apply(text)
    }

    #[test]
    fn ages_and_widths_do_not_count() {
        let one = normal("NAME    COLOR   AGE\na       red     3s\n");
        let two = normal("NAME  COLOR  AGE\na     red    1m12s\n");
        assert_eq!(one, two);
    }

    #[test]
    fn generated_names_are_hidden_and_given_ones_are_not() {
        assert_eq!(normal("web-6d4cf56db6-x7x2l"), "web-<hash>-<random>");
        assert_eq!(normal("pod/my-nginx-server"), "pod/my-nginx-server");
        assert_eq!(normal("replicas-12345"), "replicas-12345");
    }

    #[test]
    fn the_head_of_a_log_line_is_hidden_whatever_the_process() {
        let text = normal("W1116 07:27:12.889033   30123 prune.go:71] Deprecated");
        assert_eq!(text, "<log> prune.go:71] Deprecated");
    }

    #[test]
    fn dates_are_hidden_whatever_their_form() {
        for text in [
            "Mon, 16 Nov 2026 02:40:00 +0000",
            "Mon Nov 16 02:40:00 2026",
            "2026-11-16 02:40:00.123456789 +0000 UTC",
        ] {
            assert_eq!(normal(text), "<date>", "{text}");
        }
    }
}
