//! The names Kubernetes accepts, and its messages for those it does not.

use std::sync::LazyLock;

use aplomb_go_compat::statics::StaticRegex;

static SUBDOMAIN: LazyLock<StaticRegex> =
    LazyLock::new(|| pattern(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"));
static LABEL: LazyLock<StaticRegex> = LazyLock::new(|| pattern("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"));
static LABEL_1035: LazyLock<StaticRegex> =
    LazyLock::new(|| pattern("^[a-z]([-a-z0-9]*[a-z0-9])?$"));
static QUALIFIED: LazyLock<StaticRegex> =
    LazyLock::new(|| pattern("^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"));

const SUBDOMAIN_MESSAGE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_MESSAGE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035_MESSAGE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED_MESSAGE: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE_MESSAGE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

fn pattern(source: &str) -> StaticRegex {
    StaticRegex::new(source).expect("the patterns of this file compile")
}

/// What is wrong with a DNS subdomain.
#[must_use]
pub fn dns_1123_subdomain(text: &str) -> Vec<String> {
    check(text, 253, "characters", &SUBDOMAIN, SUBDOMAIN_MESSAGE)
}

/// What is wrong with a DNS label.
#[must_use]
pub fn dns_1123_label(text: &str) -> Vec<String> {
    check(text, 63, "characters", &LABEL, LABEL_MESSAGE)
}

/// What is wrong with a DNS label that may not start with a digit.
#[must_use]
pub fn dns_1035_label(text: &str) -> Vec<String> {
    check(text, 63, "characters", &LABEL_1035, LABEL_1035_MESSAGE)
}

/// What is wrong with a label's value.
#[must_use]
pub fn label_value(text: &str) -> Vec<String> {
    if text.is_empty() {
        Vec::new()
    } else {
        check(text, 63, "bytes", &QUALIFIED, LABEL_VALUE_MESSAGE)
    }
}

/// What is wrong with a name that becomes part of a path.
#[must_use]
pub fn path_segment(text: &str, prefix: bool) -> Vec<String> {
    if let (false, "." | "..") = (prefix, text) {
        return vec![format!("may not be '{text}'")];
    }
    ["/", "%"]
        .iter()
        .filter(|c| text.contains(**c))
        .map(|c| format!("may not contain '{c}'"))
        .collect()
}

/// What is wrong with a label or annotation key.
#[must_use]
pub fn qualified_name(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut parts = text.split('/');
    let (first, second) = (parts.next().unwrap_or_default(), parts.next());
    if parts.next().is_some() {
        let shape = "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
        return vec![shape.to_owned()];
    }
    let name = match second {
        None => first,
        Some(name) => {
            if first.is_empty() {
                problems.push("prefix part must be non-empty".to_owned());
            } else {
                problems.extend(
                    check(first, 253, "bytes", &SUBDOMAIN, SUBDOMAIN_MESSAGE)
                        .into_iter()
                        .map(|m| format!("prefix part {m}")),
                );
            }
            name
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        problems.push("name part must be no more than 63 bytes".to_owned());
    }
    if !QUALIFIED.is_match(name) {
        problems.push(QUALIFIED_MESSAGE.to_owned());
    }
    problems
}

/// The server counts bytes everywhere, and in names calls them characters.
fn check(text: &str, max: usize, unit: &str, shape: &StaticRegex, message: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > max {
        problems.push(format!("must be no more than {max} {unit}"));
    }
    if !shape.is_match(text) {
        problems.push(message.to_owned());
    }
    problems
}
