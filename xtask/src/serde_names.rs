//! The keys of what is written and read as JSON, from the types that derive it: one line for each type, without its
//! name.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use crate::source::{SourceFile, end_of_braces, line_of};

/// One line for each struct (`{a b}`) and enum (`a | b{c}`), and one for each key that a `json!` writes.
pub fn shapes(files: &[SourceFile]) -> BTreeSet<String> {
    let ours = |file: &&SourceFile| {
        let apart = ["/gateway_api/", "testbed/conformance/", "testbed/soak/"];
        let tree = file.is_product() || file.path.starts_with("testbed/");
        tree && file.is_rust() && !apart.iter().any(|folder| file.path.contains(folder))
    };
    let key = Regex::new(r#""([\w.-]+)"\s*:[^:]"#).expect("it is fixed");
    let mut names = BTreeSet::new();
    for file in files.iter().filter(ours) {
        names.extend(derived(file));
        if file.is_product() {
            let lines = file.production(&file.uncommented);
            let keys = lines.flat_map(|(_, line)| key.captures_iter(line).map(|found| found[1].to_owned()));
            names.extend(keys.map(|key| format!("key {key}")));
        }
    }
    names
}

fn derived(file: &SourceFile) -> Vec<String> {
    static DERIVE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"#\[derive\([^)]*\b(?:Serialize|Deserialize)\b").expect("it is fixed"));
    static ITEM: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\b(struct|enum)\s+\w+[^{(;]*([{(;])").expect("it is fixed"));
    let mut lines = Vec::new();
    for derive in DERIVE.find_iter(&file.code) {
        let at = line_of(&file.code, derive.start());
        if file.is_test || file.test_lines.contains(&at) {
            continue;
        }
        let Some(item) = ITEM.captures_at(&file.code, derive.end()) else {
            continue;
        };
        let (Some(keyword), Some(open)) = (item.get(1), item.get(2)) else {
            continue;
        };
        if open.as_str() == "{" {
            let attributes = Attributes::of(&file.uncommented[derive.start()..keyword.start()]);
            let end = end_of_braces(&file.code, open.start()) - 1;
            let body = (open.end(), end);
            lines.push(attributes.shape(file, body, keyword.as_str() == "enum"));
        }
    }
    lines
}

/// What the attributes of a type, a field or a variant say about names.
#[derive(Default)]
struct Attributes {
    rule: String,
    field_rule: String,
    rename: String,
    tag: String,
    is_flat: bool,
    is_skipped: bool,
}

impl Attributes {
    fn of(text: &str) -> Self {
        let value = |key: &str| {
            let pattern = format!(r#"\b{key}\s*=\s*"([^"]*)""#);
            let found = Regex::new(&pattern)
                .ok()
                .and_then(|it| it.captures(text).map(|it| it[1].to_owned()));
            found.unwrap_or_default()
        };
        let flag = |key: &str| {
            let pattern = format!(r"\b{key}\s*[,)]");
            Regex::new(&pattern).is_ok_and(|it| it.is_match(text))
        };
        Self {
            rule: value("rename_all"),
            field_rule: value("rename_all_fields"),
            rename: value("rename"),
            tag: value("tag"),
            is_flat: flag("flatten") || flag("untagged"),
            is_skipped: flag("skip"),
        }
    }

    /// The names of the fields or variants between two offsets.
    fn shape(&self, file: &SourceFile, body: (usize, usize), is_enum: bool) -> String {
        let mut names = Vec::new();
        for (start, end) in split(&file.code, body) {
            let (name, rest) = member(&file.code, (start, end));
            let own = Self::of(&file.uncommented[start..rest]);
            if name.is_empty() || own.is_skipped {
                continue;
            }
            let mut shown = match (own.is_flat, own.rename.as_str()) {
                (true, _) => "..".to_owned(),
                (_, "") => renamed(name, &self.rule),
                (_, rename) => rename.to_owned(),
            };
            if let Some(open) = file.code[rest..end].find('{').filter(|_| is_enum) {
                let inner = Self {
                    rule: if own.rule.is_empty() {
                        self.field_rule.clone()
                    } else {
                        own.rule
                    },
                    ..Self::default()
                };
                let body = (rest + open + 1, end_of_braces(&file.code, rest + open) - 1);
                shown.push_str(&inner.shape(file, body, false));
            }
            names.push(shown);
        }
        names.sort_unstable();
        match (is_enum, self.tag.as_str()) {
            (false, _) => format!("{{{}}}", names.join(" ")),
            (true, "") => names.join(" | "),
            (true, tag) => format!("{tag}: {}", names.join(" | ")),
        }
    }
}

/// Where each member between two offsets begins and ends.
fn split(code: &str, (from, to): (usize, usize)) -> Vec<(usize, usize)> {
    let (mut parts, mut depth, mut start, mut last) = (Vec::new(), 0, from, ' ');
    for (at, c) in code[from..to].char_indices().map(|(at, c)| (from + at, c)) {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            '>' if last == '-' || last == '=' => {}
            ')' | ']' | '}' | '>' => depth -= 1,
            ',' if depth == 0 => {
                parts.push((start, at));
                start = at + 1;
            }
            _ => {}
        }
        last = c;
    }
    parts.push((start, to));
    parts
}

/// The name of a member behind its attributes and visibility, and where it ends.
fn member(code: &str, (start, end): (usize, usize)) -> (&str, usize) {
    static MEMBER: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?(?:r#)?(\w+)").expect("it is fixed")
    });
    let name = MEMBER.captures(&code[start..end]).and_then(|it| it.get(1));
    name.map_or(("", end), |it| (it.as_str(), start + it.end()))
}

/// What serde makes of a name under `rename_all`.
fn renamed(name: &str, rule: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for part in name.split('_').filter(|part| !part.is_empty()) {
        let mut fresh = true;
        for c in part.chars() {
            match words.last_mut().filter(|_| !fresh && !c.is_uppercase()) {
                Some(word) => word.push(c),
                None => words.push(c.to_lowercase().collect()),
            }
            fresh = false;
        }
    }
    let capital = |word: &String| word[..1].to_uppercase() + &word[1..];
    match rule {
        "camelCase" | "PascalCase" => {
            let skip = usize::from(rule == "camelCase");
            let small = words.iter().take(skip).cloned();
            small.chain(words.iter().skip(skip).map(capital)).collect()
        }
        "lowercase" => words.concat(),
        "UPPERCASE" => words.concat().to_uppercase(),
        "snake_case" => words.join("_"),
        "kebab-case" => words.join("-"),
        "SCREAMING_SNAKE_CASE" => words.join("_").to_uppercase(),
        _ => name.to_owned(),
    }
}

#[test]
fn names_are_those_that_serde_writes() {
    let text = r#"
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Page {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<BTreeMap<String, u8>>,
    #[serde(rename = "type")]
    kind: String,
    #[serde(flatten)]
    rest: Rest,
    #[serde(skip)]
    inner: u8,
}
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Message { NotFound, Opened { at: u8, by: Vec<u8> }, Closed(u8) }
"#;
    let names = shapes(&[SourceFile::new("crates/a/src/lib.rs", text)]);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(
        names,
        ["kind: closed | not-found | opened{at by}", "{.. lastSeen type}"]
    );
}
