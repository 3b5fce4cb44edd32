//! The rules for names of different strictness, with the server's messages.

use std::sync::LazyLock;

use aplomb_go_compat::statics::StaticRegex;

use crate::field::FieldError;

const LABEL_MESSAGE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
const SUBDOMAIN_MESSAGE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";

struct Rule {
    pattern: &'static str,
    regex: StaticRegex,
    message: &'static str,
    examples: &'static [&'static str],
    max: usize,
}

impl Rule {
    fn new(
        pattern: &'static str,
        message: &'static str,
        examples: &'static [&'static str],
        max: usize,
    ) -> Self {
        let regex = StaticRegex::new(&format!("^(?:{pattern})$"));
        let regex = regex.expect("name patterns are valid");
        Self {
            pattern,
            regex,
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

static LABEL: LazyLock<Rule> = LazyLock::new(|| {
    Rule::new(
        "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
        LABEL_MESSAGE,
        &["my-name", "123-abc"],
        63,
    )
});
static SUBDOMAIN: LazyLock<Rule> = LazyLock::new(|| {
    let pattern = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
    Rule::new(pattern, SUBDOMAIN_MESSAGE, &["example.com"], 253)
});

/// How the limits of names are worded.
pub fn too_long(max: usize) -> String {
    format!("must be no more than {max} characters")
}

/// The message for a value that does not match a pattern.
pub fn regex_error(message: &str, pattern: &str, examples: &[&str]) -> String {
    let shown: Vec<String> = examples
        .iter()
        .map(|example| format!("'{example}'"))
        .collect();
    if shown.is_empty() {
        return format!("{message} (regex used for validation is '{pattern}')");
    }
    format!(
        "{message} (e.g. {}, regex used for validation is '{pattern}')",
        shown.join(",  or ")
    )
}

/// With `prefix` the name is a `generateName`: a trailing dash is fine.
fn unmasked(name: &str, prefix: bool) -> String {
    let masked = prefix && name.len() > 1 && name.ends_with('-');
    match name.get(..name.len().saturating_sub(2)) {
        Some(rest) if masked => format!("{rest}a"),
        _ => name.to_owned(),
    }
}

/// A DNS-1123 label.
pub fn label(name: &str, prefix: bool) -> Vec<String> {
    let name = unmasked(name, prefix);
    if !LABEL.regex.is_match(&name) && SUBDOMAIN.regex.is_match(&name) {
        let too_long = (name.len() > LABEL.max).then(|| too_long(LABEL.max));
        return too_long
            .into_iter()
            .chain(["must not contain dots".to_owned()])
            .collect();
    }
    LABEL.check(&name)
}

/// A DNS-1123 subdomain.
pub fn subdomain(name: &str, prefix: bool) -> Vec<String> {
    SUBDOMAIN.check(&unmasked(name, prefix))
}

/// Anything that can be one segment of a path.
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
    Rule::new(
        "[-._a-zA-Z0-9]+",
        message,
        &["key.name", "KEY_NAME", "key-name"],
        253,
    )
});

/// A key of a ConfigMap or a Secret: it becomes a file name.
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

const KEY_MESSAGE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const KEY_EXAMPLES: &[&str] = &["MyName", "my.name", "123-abc"];
const KEY_PATTERN: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

static KEY: LazyLock<Rule> =
    LazyLock::new(|| Rule::new(KEY_PATTERN, KEY_MESSAGE, KEY_EXAMPLES, 63));
static LABEL_VALUE: LazyLock<Rule> = LazyLock::new(|| {
    let message = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
    let pattern = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
    Rule::new(pattern, message, &["MyValue", "my_value", "12345"], 63)
});
static PERCENT: LazyLock<Rule> = LazyLock::new(|| {
    let message = "a valid percent string must be a numeric string followed by an ending '%'";
    Rule::new("[0-9]+%", message, &["1%", "93%"], usize::MAX)
});
static REASON: LazyLock<Rule> = LazyLock::new(|| {
    let message = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'";
    let examples = &[
        "my_name",
        "MY_NAME",
        "MyName",
        "ReasonA,ReasonB",
        "ReasonA:ReasonB",
    ];
    Rule::new(
        "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?",
        message,
        examples,
        usize::MAX,
    )
});

/// How the limits of label keys and values are worded.
fn too_many_bytes(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

/// A label key: a name, perhaps after a DNS subdomain and a slash.
pub fn qualified(key: &str) -> Vec<String> {
    let (prefix, name) = match key.split('/').collect::<Vec<_>>().as_slice() {
        [name] => (None, *name),
        [prefix, name] => (Some(*prefix), *name),
        _ => {
            let why = regex_error(KEY_MESSAGE, KEY_PATTERN, KEY_EXAMPLES);
            return vec![format!(
                "a valid label key {why} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    let mut wrong: Vec<String> = match prefix {
        Some("") => vec!["prefix part must be non-empty".to_owned()],
        Some(prefix) => SUBDOMAIN
            .check(prefix)
            .into_iter()
            .map(|why| format!("prefix part {why}"))
            .collect(),
        None => Vec::new(),
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > KEY.max {
        wrong.push(format!("name part {}", too_many_bytes(KEY.max)));
    }
    if !KEY.regex.is_match(name) {
        wrong.push(format!(
            "name part {}",
            regex_error(KEY_MESSAGE, KEY_PATTERN, KEY_EXAMPLES)
        ));
    }
    wrong
}

/// A label value.
pub fn label_value(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > LABEL_VALUE.max {
        wrong.push(too_many_bytes(LABEL_VALUE.max));
    }
    if !LABEL_VALUE.regex.is_match(value) {
        wrong.push(regex_error(
            LABEL_VALUE.message,
            LABEL_VALUE.pattern,
            LABEL_VALUE.examples,
        ));
    }
    wrong
}

/// `25%`.
pub fn percent(value: &str) -> Vec<String> {
    PERCENT.check(value)
}

/// The reason of a condition.
pub fn condition_reason(value: &str) -> Vec<String> {
    REASON.check(value)
}

/// A port name (an IANA service name).
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
        (
            name.contains("--"),
            "must not contain consecutive hyphens".to_owned(),
        ),
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
pub fn fully_qualified(name: &str, field: &str) -> Vec<FieldError> {
    if name.is_empty() {
        return vec![FieldError::required(field, "")];
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let whole = SUBDOMAIN.check(name);
    if !whole.is_empty() {
        return vec![FieldError::invalid(field, name, whole.join(","))];
    }
    if !name.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        return vec![FieldError::invalid(field, name, why)];
    }
    name.split('.')
        .map(|part| (part, label(part, false)))
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
pub fn underscored_subdomain(name: &str) -> Vec<String> {
    UNDERSCORED.check(name)
}

/// A domain name of at least three labels.
pub fn three_segments(name: &str, field: &str) -> Vec<FieldError> {
    if name.is_empty() {
        return vec![FieldError::required(field, "")];
    }
    let wrong = SUBDOMAIN.check(name);
    let why = if !wrong.is_empty() {
        wrong.join(",")
    } else if name.split('.').count() < 3 {
        "should be a domain with at least three segments separated by dots".to_owned()
    } else {
        return Vec::new();
    };
    vec![FieldError::invalid(field, name, why)]
}

static RFC1035: LazyLock<Rule> = LazyLock::new(|| {
    let message = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character";
    let pattern = "[a-z]([-a-z0-9]*[a-z0-9])?";
    Rule::new(pattern, message, &["my-name", "abc-123"], 63)
});

/// A DNS label that starts with a letter.
pub fn rfc1035_label(name: &str) -> Vec<String> {
    RFC1035.check(name)
}

static WILDCARD: LazyLock<Rule> = LazyLock::new(|| {
    let pattern = "\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
    let message = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character";
    Rule::new(pattern, message, &["*.example.com"], 253)
});

/// A star and a DNS subdomain.
pub fn wildcard_subdomain(name: &str) -> Vec<String> {
    WILDCARD.check(name)
}

const PATH_PATTERN: &str = "[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+";
static PATH: LazyLock<Rule> =
    LazyLock::new(|| Rule::new(PATH_PATTERN, "Invalid path", &[], usize::MAX));

/// A path below a domain: `example.com/part`.
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
    let mut errors: Vec<FieldError> = SUBDOMAIN
        .check(host)
        .into_iter()
        .map(|why| FieldError::invalid(field, host, why))
        .collect();
    errors.extend(
        PATH.check(rest)
            .into_iter()
            .map(|why| FieldError::invalid(field, rest, why)),
    );
    errors
}

/// The name of a CSI driver, in any case.
pub fn csi_driver(name: &str, field: &str) -> Vec<FieldError> {
    if name.is_empty() {
        return vec![FieldError::required(field, "")];
    }
    let mut errors = Vec::new();
    if name.len() > 63 {
        errors.push(FieldError::too_long(field, 63));
    }
    let wrong = SUBDOMAIN.check(&name.to_lowercase()).into_iter();
    errors.extend(wrong.map(|why| FieldError::invalid(field, name, why)));
    errors
}

static HTTP_HEADER: LazyLock<Rule> = LazyLock::new(|| {
    let message = "a valid HTTP header must consist of alphanumeric characters or '-'";
    Rule::new("[-A-Za-z0-9]+", message, &["X-Header-Name"], usize::MAX)
});

/// The name of an HTTP header.
pub fn http_header(name: &str) -> Vec<String> {
    HTTP_HEADER.check(name)
}

/// The name of an environment variable.
pub fn variable(name: &str) -> Vec<String> {
    let printable = |c: char| (c == ' ' || c.is_ascii_graphic()) && c != '=';
    if name.chars().all(printable) {
        return Vec::new();
    }
    let why = "a valid environment variable name must consist only of printable ASCII characters other than '='";
    vec![why.to_owned()]
}
