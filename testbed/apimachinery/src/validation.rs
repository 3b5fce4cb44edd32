//! The server's rules for names, keys and values, and its messages when they are broken.

use std::sync::LazyLock;

use aplomb_go_compat::statics::StaticRegex;

use crate::field::FieldError;

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const LABEL_MESSAGE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
const LABEL_MAX: usize = 63;
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const SUBDOMAIN_MESSAGE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const SUBDOMAIN_MAX: usize = 253;
const KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const KEY_MESSAGE: &str =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const KEY_EXAMPLES: &[&str] = &["MyName", "my.name", "123-abc"];
const KEY_MAX: usize = 63;
const LABEL_KEY: &str = "a valid label key";
const VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const VALUE_MESSAGE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

/// A predicate on the whole of a text.
type Judge = fn(&str) -> bool;

// The first search of a thread with one of these draws hash keys, which decides the order of hash
// maps later in a run: to share them among more rules, or fewer, changes what a seed stands for.
static LABEL_REGEX: LazyLock<StaticRegex> = LazyLock::new(|| anchored(LABEL));
static SUBDOMAIN_REGEX: LazyLock<StaticRegex> = LazyLock::new(|| anchored(SUBDOMAIN));
static KEY_REGEX: LazyLock<StaticRegex> = LazyLock::new(|| anchored(KEY));
static VALUE_REGEX: LazyLock<StaticRegex> = LazyLock::new(|| anchored(VALUE));

fn anchored(pattern: &str) -> StaticRegex {
    StaticRegex::new(&format!("^(?:{pattern})$")).expect("name patterns are valid")
}

/// Whether `text` begins and ends with an `edge` and has only what is `within` between.
fn is_made_of(text: &str, edge: fn(&u8) -> bool, within: fn(&u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(edge) && bytes.last().is_some_and(edge) && bytes.iter().all(within)
}

fn is_dns_label(text: &str) -> bool {
    let edge = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9');
    is_made_of(text, edge, |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

fn is_dns_subdomain(text: &str) -> bool {
    text.split('.').all(is_dns_label)
}

fn is_label_key(text: &str) -> bool {
    is_made_of(text, u8::is_ascii_alphanumeric, |byte| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
    })
}

/// How the limits of names are worded.
#[must_use]
pub fn too_long(max: usize) -> String {
    format!("must be no more than {max} characters")
}

/// How the limits of label keys and values are worded.
#[must_use]
pub fn too_many_bytes(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

/// The message for a value that does not match a pattern.
#[must_use]
pub fn regex_error(message: &str, pattern: &str, examples: &[&str]) -> String {
    let shown: Vec<String> = examples.iter().map(|example| format!("'{example}'")).collect();
    if shown.is_empty() {
        return format!("{message} (regex used for validation is '{pattern}')");
    }
    format!(
        "{message} (e.g. {}, regex used for validation is '{pattern}')",
        shown.join(",  or ")
    )
}

struct Rule {
    pattern: &'static str,
    regex: StaticRegex,
    message: &'static str,
    examples: &'static [&'static str],
    max: usize,
}

impl Rule {
    fn new(pattern: &'static str, message: &'static str, examples: &'static [&'static str], max: usize) -> Self {
        Self {
            pattern,
            regex: anchored(pattern),
            message,
            examples,
            max,
        }
    }

    fn check(&self, value: &str) -> Vec<String> {
        let mut wrong = Vec::new();
        if value.len() > self.max {
            wrong.push(too_long(self.max));
        }
        if !self.regex.is_match(value) {
            wrong.push(regex_error(self.message, self.pattern, self.examples));
        }
        wrong
    }
}

/// With `prefix` the name is a `generateName`: a trailing dash is fine.
fn unmasked(name: &str, prefix: bool) -> String {
    let masked = prefix && name.len() > 1 && name.ends_with('-');
    match name.get(..name.len().saturating_sub(2)) {
        Some(rest) if masked => format!("{rest}a"),
        _ => name.to_owned(),
    }
}

/// A DNS-1123 label. With `prefix` the name is a `generateName`.
#[must_use]
pub fn dns_label(name: &str, prefix: bool) -> Vec<String> {
    let is_label: Judge = |name| LABEL_REGEX.is_match(name);
    let is_subdomain: Judge = |name| SUBDOMAIN_REGEX.is_match(name);
    label(&unmasked(name, prefix), is_label, is_subdomain)
}

fn label(name: &str, is_label: Judge, is_subdomain: Judge) -> Vec<String> {
    let mut wrong = Vec::new();
    if name.len() > LABEL_MAX {
        wrong.push(too_long(LABEL_MAX));
    }
    if !is_label(name) {
        wrong.push(match is_subdomain(name) {
            true => "must not contain dots".to_owned(),
            false => regex_error(LABEL_MESSAGE, LABEL, &["my-name", "123-abc"]),
        });
    }
    wrong
}

/// A DNS-1123 subdomain. With `prefix` the name is a `generateName`.
#[must_use]
pub fn dns_subdomain(name: &str, prefix: bool) -> Vec<String> {
    let is_subdomain: Judge = |name| SUBDOMAIN_REGEX.is_match(name);
    subdomain(&unmasked(name, prefix), too_long, is_subdomain)
}

/// The server counts bytes everywhere, and in names calls them characters.
fn subdomain(name: &str, too_long: fn(usize) -> String, is_subdomain: Judge) -> Vec<String> {
    let mut wrong = Vec::new();
    if name.len() > SUBDOMAIN_MAX {
        wrong.push(too_long(SUBDOMAIN_MAX));
    }
    if !is_subdomain(name) {
        wrong.push(regex_error(SUBDOMAIN_MESSAGE, SUBDOMAIN, &["example.com"]));
    }
    wrong
}

/// Anything that can be one segment of a path.
#[must_use]
pub fn path_segment(name: &str, prefix: bool) -> Vec<String> {
    if !prefix && (name == "." || name == "..") {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"]
        .iter()
        .filter(|illegal| name.contains(**illegal))
        .map(|illegal| format!("may not contain '{illegal}'"))
        .collect()
}

static CONFIG_MAP_KEY: LazyLock<Rule> = LazyLock::new(|| {
    let message = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
    let examples = &["key.name", "KEY_NAME", "key-name"];
    Rule::new("[-._a-zA-Z0-9]+", message, examples, 253)
});

/// A key of a ConfigMap or a Secret: it becomes a file name.
#[must_use]
pub fn config_map_key(key: &str) -> Vec<String> {
    let mut wrong = CONFIG_MAP_KEY.check(key);
    match key {
        "." => wrong.push("must not be '.'".to_owned()),
        ".." => wrong.push("must not be '..'".to_owned()),
        _ if key.starts_with("..") => wrong.push("must not start with '..'".to_owned()),
        _ => {}
    }
    wrong
}

static PERCENT: LazyLock<Rule> = LazyLock::new(|| {
    let message = "a valid percent string must be a numeric string followed by an ending '%'";
    Rule::new("[0-9]+%", message, &["1%", "93%"], usize::MAX)
});
static REASON: LazyLock<Rule> = LazyLock::new(|| {
    let message = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'";
    let examples = &["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"];
    Rule::new("[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", message, examples, usize::MAX)
});

/// A label key: a name, perhaps after a DNS subdomain and a slash.
#[must_use]
pub fn label_key(key: &str) -> Vec<String> {
    let is_subdomain: Judge = |prefix| SUBDOMAIN_REGEX.is_match(prefix);
    let is_name: Judge = |name| KEY_REGEX.is_match(name);
    let check = |prefix: &str| subdomain(prefix, too_long, is_subdomain);
    prefixed_key(key, LABEL_KEY, check, is_name)
}

fn prefixed_key(key: &str, what: &str, check_prefix: impl FnOnce(&str) -> Vec<String>, is_name: Judge) -> Vec<String> {
    let malformed = || regex_error(KEY_MESSAGE, KEY, KEY_EXAMPLES);
    let (prefix, name) = match key.split('/').collect::<Vec<_>>().as_slice() {
        [name] => (None, *name),
        [prefix, name] => (Some(*prefix), *name),
        _ => {
            return vec![format!(
                "{what} {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                malformed()
            )];
        }
    };
    let mut wrong = match prefix {
        Some("") => vec!["must be non-empty".to_owned()],
        Some(prefix) => check_prefix(prefix),
        None => Vec::new(),
    };
    for why in &mut wrong {
        why.insert_str(0, "prefix part ");
    }
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > KEY_MAX {
        wrong.push(format!("name part {}", too_many_bytes(KEY_MAX)));
    }
    if !is_name(name) {
        wrong.push(format!("name part {}", malformed()));
    }
    wrong
}

/// A label value.
#[must_use]
pub fn label_value(value: &str) -> Vec<String> {
    checked_value(value, |value| VALUE_REGEX.is_match(value))
}

fn checked_value(value: &str, is_value: Judge) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > KEY_MAX {
        wrong.push(too_many_bytes(KEY_MAX));
    }
    if !is_value(value) {
        let examples = &["MyValue", "my_value", "12345"];
        wrong.push(regex_error(VALUE_MESSAGE, VALUE, examples));
    }
    wrong
}

/// `25%`.
#[must_use]
pub fn percent(value: &str) -> Vec<String> {
    PERCENT.check(value)
}

/// The reason of a condition.
#[must_use]
pub fn condition_reason(value: &str) -> Vec<String> {
    REASON.check(value)
}

/// A port name (an IANA service name).
#[must_use]
pub fn port_name(name: &str) -> Vec<String> {
    let charset = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    [
        (name.len() > 15, too_long(15)),
        (
            name.is_empty() || !name.chars().all(charset),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        ),
        (
            !name.contains(|c: char| c.is_ascii_lowercase()),
            "must contain at least one letter (a-z)".to_owned(),
        ),
        (name.contains("--"), "must not contain consecutive hyphens".to_owned()),
        (
            name.starts_with('-') || name.ends_with('-'),
            "must not begin or end with a hyphen".to_owned(),
        ),
    ]
    .into_iter()
    .filter_map(|(broken, why)| broken.then_some(why))
    .collect()
}

/// A domain name of at least two labels, perhaps with a dot at its end.
#[must_use]
pub fn fully_qualified(name: &str, field: &str) -> Vec<FieldError> {
    if name.is_empty() {
        return vec![FieldError::required(field, "")];
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let whole = dns_subdomain(name, false);
    if !whole.is_empty() {
        return vec![FieldError::invalid(field, name, whole.join(","))];
    }
    if !name.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        return vec![FieldError::invalid(field, name, why)];
    }
    name.split('.')
        .map(|part| (part, dns_label(part, false)))
        .find(|(_, wrong)| !wrong.is_empty())
        .map(|(part, wrong)| FieldError::invalid(field, part, wrong.join(",")))
        .into_iter()
        .collect()
}

static UNDERSCORED: LazyLock<Rule> = LazyLock::new(|| {
    let message = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character";
    let pattern = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";
    Rule::new(pattern, message, &["example.com"], 253)
});

/// A DNS subdomain that may hold underscores.
#[must_use]
pub fn underscored_subdomain(name: &str) -> Vec<String> {
    UNDERSCORED.check(name)
}

/// A domain name of at least three labels.
#[must_use]
pub fn three_segments(name: &str, field: &str) -> Vec<FieldError> {
    if name.is_empty() {
        return vec![FieldError::required(field, "")];
    }
    let wrong = dns_subdomain(name, false);
    let why = if !wrong.is_empty() {
        wrong.join(",")
    } else if name.split('.').count() < 3 {
        "should be a domain with at least three segments separated by dots".to_owned()
    } else {
        return Vec::new();
    };
    vec![FieldError::invalid(field, name, why)]
}

static RFC1035: LazyLock<Rule> = LazyLock::new(rfc_1035);

fn rfc_1035() -> Rule {
    let message = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character";
    let pattern = "[a-z]([-a-z0-9]*[a-z0-9])?";
    Rule::new(pattern, message, &["my-name", "abc-123"], 63)
}

/// A DNS label that starts with a letter.
#[must_use]
pub fn dns_1035_label(name: &str) -> Vec<String> {
    RFC1035.check(name)
}

static WILDCARD: LazyLock<Rule> = LazyLock::new(|| {
    let pattern = "\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
    let message = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character";
    Rule::new(pattern, message, &["*.example.com"], 253)
});

/// A star and a DNS subdomain.
#[must_use]
pub fn wildcard_subdomain(name: &str) -> Vec<String> {
    WILDCARD.check(name)
}

const PATH_PATTERN: &str = "[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+";
static PATH: LazyLock<Rule> = LazyLock::new(|| Rule::new(PATH_PATTERN, "Invalid path", &[], usize::MAX));

/// A path below a domain: `example.com/part`.
#[must_use]
pub fn domain_prefixed_path(path: &str, field: &str) -> Vec<FieldError> {
    if path.is_empty() {
        return vec![FieldError::required(field, "")];
    }
    let Some((host, rest)) = path
        .split_once('/')
        .filter(|(host, rest)| !host.is_empty() && !rest.is_empty())
    else {
        let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        return vec![FieldError::invalid(field, path, why)];
    };
    let host = dns_subdomain(host, false).into_iter().map(|why| (host, why));
    let rest = PATH.check(rest).into_iter().map(|why| (rest, why));
    host.chain(rest)
        .map(|(part, why)| FieldError::invalid(field, part, why))
        .collect()
}

/// The name of a CSI driver, in any case.
#[must_use]
pub fn csi_driver(name: &str, field: &str) -> Vec<FieldError> {
    if name.is_empty() {
        return vec![FieldError::required(field, "")];
    }
    let mut errors = Vec::new();
    if name.len() > 63 {
        errors.push(FieldError::too_long(field, 63));
    }
    let wrong = dns_subdomain(&name.to_lowercase(), false).into_iter();
    errors.extend(wrong.map(|why| FieldError::invalid(field, name, why)));
    errors
}

static HTTP_HEADER: LazyLock<Rule> = LazyLock::new(|| {
    let message = "a valid HTTP header must consist of alphanumeric characters or '-'";
    Rule::new("[-A-Za-z0-9]+", message, &["X-Header-Name"], usize::MAX)
});

/// The name of an HTTP header.
#[must_use]
pub fn http_header(name: &str) -> Vec<String> {
    HTTP_HEADER.check(name)
}

/// The name of an environment variable.
#[must_use]
pub fn variable(name: &str) -> Vec<String> {
    let printable = |c: char| (c == ' ' || c.is_ascii_graphic()) && c != '=';
    if name.chars().all(printable) {
        return Vec::new();
    }
    let why = "a valid environment variable name must consist only of printable ASCII characters other than '='";
    vec![why.to_owned()]
}

/// The rules for custom resources and their definitions, with expressions of their own.
pub mod custom {
    use super::*;

    static LABEL_REGEX: LazyLock<StaticRegex> = LazyLock::new(|| anchored(LABEL));
    static SUBDOMAIN_REGEX: LazyLock<StaticRegex> = LazyLock::new(|| anchored(SUBDOMAIN));
    static KEY_REGEX: LazyLock<StaticRegex> = LazyLock::new(|| anchored(KEY));
    static RFC1035: LazyLock<Rule> = LazyLock::new(rfc_1035);

    /// A DNS-1123 label.
    #[must_use]
    pub fn dns_label(name: &str) -> Vec<String> {
        label(name, |name| LABEL_REGEX.is_match(name), is_dns_subdomain)
    }

    /// A DNS-1123 subdomain. With `prefix` the name is a `generateName`.
    #[must_use]
    pub fn dns_subdomain(name: &str, prefix: bool) -> Vec<String> {
        let is_subdomain: Judge = |name| SUBDOMAIN_REGEX.is_match(name);
        subdomain(&unmasked(name, prefix), too_long, is_subdomain)
    }

    /// A DNS label that starts with a letter.
    #[must_use]
    pub fn dns_1035_label(name: &str) -> Vec<String> {
        RFC1035.check(name)
    }

    /// A label key in the words that the validation of embedded metadata has for it.
    #[must_use]
    pub fn qualified_name(key: &str) -> Vec<String> {
        let is_subdomain: Judge = |prefix| SUBDOMAIN_REGEX.is_match(prefix);
        let check = |prefix: &str| subdomain(prefix, too_many_bytes, is_subdomain);
        let is_name: Judge = |name| KEY_REGEX.is_match(name);
        prefixed_key(key, "a qualified name", check, is_name)
    }

    /// A label value.
    #[must_use]
    pub fn label_value(value: &str) -> Vec<String> {
        checked_value(value, |value| value.is_empty() || KEY_REGEX.is_match(value))
    }
}

/// The rules for the metadata of every object and for selectors, which run several times for each
/// write and so search with no expression.
pub mod metadata {
    use super::*;

    /// A DNS-1123 label.
    #[must_use]
    pub fn dns_label(name: &str) -> Vec<String> {
        label(name, is_dns_label, is_dns_subdomain)
    }

    /// A DNS-1123 subdomain. With `prefix` the name is a `generateName`.
    #[must_use]
    pub fn dns_subdomain(name: &str, prefix: bool) -> Vec<String> {
        subdomain(&unmasked(name, prefix), too_long, is_dns_subdomain)
    }

    /// A label key: a name, perhaps after a DNS subdomain and a slash.
    #[must_use]
    pub fn label_key(key: &str) -> Vec<String> {
        let check = |prefix: &str| subdomain(prefix, too_long, is_dns_subdomain);
        prefixed_key(key, LABEL_KEY, check, is_label_key)
    }

    /// A label value.
    #[must_use]
    pub fn label_value(value: &str) -> Vec<String> {
        checked_value(value, |value| value.is_empty() || is_label_key(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_as_the_patterns_say() {
        let patterns = [LABEL, SUBDOMAIN, KEY, VALUE].map(anchored);
        let is_label_value: fn(&str) -> bool = |value| metadata::label_value(value).is_empty();
        let rules = [is_dns_label, is_dns_subdomain, is_label_key, is_label_value];
        let mut texts = vec![String::new()];
        for length in 0..5 {
            let mut shorter = texts.clone();
            shorter.retain(|text| text.chars().count() == length);
            for text in shorter {
                texts.extend(["a", "Z", "0", "-", "_", ".", "/", "é"].map(|c| format!("{text}{c}")));
            }
        }
        for text in &texts {
            for (rule, pattern) in rules.iter().zip(&patterns) {
                assert_eq!(rule(text), pattern.is_match(text), "{text:?}");
            }
        }
    }

    #[test]
    fn label_keys_are_judged_by_prefix_and_name() {
        assert!(label_key("example.com/a").is_empty());
        assert!(label_key("-a")[0].starts_with("name part must consist of"));
        assert!(label_key("x/y/z")[0].starts_with("a valid label key must consist of"));
        assert_eq!(label_key("/a"), ["prefix part must be non-empty"]);
        assert_eq!(label_key("a/").len(), 2);
    }

    #[test]
    fn a_name_with_dots_is_not_a_label() {
        assert_eq!(dns_label("a.b", false), ["must not contain dots"]);
        assert!(dns_subdomain("a.b", false).is_empty());
    }

    #[test]
    fn a_prefix_may_end_in_a_dash() {
        assert!(dns_subdomain("web-", true).is_empty());
        assert!(!dns_subdomain("-", true).is_empty());
    }
}
