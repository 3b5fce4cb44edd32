//! The words that people see in conditions and responses are explained, each of them, and so is every field
//! of Coder's kinds.

use std::fs;
use std::path::Path;

/// Where words of Coder's kinds are declared.
const CODER: &str = "crates/api/src/coder/words.rs";
/// The definitions of Coder's kinds, as they are installed.
const DEFINITIONS: &str = "deploy/coder/00-crds.yaml";
/// Where words of tunnels are declared.
const SOURCES: [&str; 2] = [
    "crates/api/src/tunnel/words.rs",
    "crates/tunnel-gateway/src/reason.rs",
];

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The constants that are one capitalised word, as conditions and reasons are.
fn declared(source: &str) -> Vec<String> {
    let lines = source.lines().filter(|line| line.contains("pub const "));
    let values = lines.filter_map(|line| line.split('"').nth(1));
    let word = |value: &&str| {
        value.starts_with(char::is_uppercase) && value.chars().all(char::is_alphanumeric)
    };
    values.filter(word).map(str::to_owned).collect()
}

/// Every one of `words` stands in backticks on the page.
fn explained(page: &str, words: &[String]) {
    let text = read(page);
    for word in words {
        let told = text.contains(&format!("`{word}`"));
        assert!(told, "{page} does not tell of {word}");
    }
}

#[test]
fn every_condition_and_reason_of_tunnels_is_explained() {
    let words: Vec<String> = SOURCES
        .into_iter()
        .flat_map(|it| declared(&read(it)))
        .collect();
    assert!(words.len() > 40, "{words:?}");
    explained("docs/tunnel.md", &words);
}

#[test]
fn every_condition_and_reason_of_coder_is_explained() {
    let words = declared(&read(CODER));
    assert!(words.len() > 40, "{words:?}");
    explained("docs/coder.md", &words);
}

/// The reasons of the Events that a file tells.
fn events(source: &str) -> Vec<String> {
    let after = |call: &'static str| source.split(call).skip(1);
    let notes = after("Note::normal(").chain(after("Note::warning("));
    let reasons = notes.filter_map(|rest| rest.trim_start().strip_prefix('"'));
    let reasons = reasons.filter_map(|rest| rest.split('"').next());
    reasons.map(str::to_owned).collect()
}

fn sources(folder: &Path, all: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, all);
        } else {
            all.push(fs::read_to_string(&path).expect("readable"));
        }
    }
}

#[test]
fn every_event_of_coder_is_explained() {
    let mut all = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    sources(&root.join("crates/coder-operator/src"), &mut all);
    let found: Vec<String> = all.iter().flat_map(|text| events(text)).collect();
    assert!(found.iter().any(|it| it == "KeyOrphaned"), "{found:?}");
    explained("docs/coder.md", &found);
}

/// The paths of the fields of a spec, in the order of their definitions: what a person may write. Of what
/// Kubernetes has for containers only the first member is named.
fn fields(text: &str) -> Vec<String> {
    let mut open: Vec<(usize, &str)> = Vec::new();
    let mut found = Vec::new();
    for line in text.lines().filter(|line| line.ends_with(':')) {
        let depth = line.len() - line.trim_start().len();
        let name = line.trim().trim_end_matches(':');
        open.retain(|(outer, _)| *outer < depth);
        let parent = open.last().map(|(_, name)| *name);
        open.push((depth, name));
        let path: Vec<&str> = open.iter().map(|(_, name)| *name).collect();
        let begin = path.iter().position(|name| *name == "openAPIV3Schema");
        let Some(begin) = begin.filter(|_| parent == Some("properties")) else {
            continue;
        };
        let members = path[begin..].iter().filter(|name| **name != "properties");
        let members: Vec<&str> = members.copied().skip(1).collect();
        let plain = !members.iter().any(|it| ["items", "resources"].contains(it));
        if let ["spec", field @ ..] = &members[..]
            && (plain || field == ["resources"])
            && !field.is_empty()
        {
            found.push(field.join("."));
        }
    }
    found
}

#[test]
fn every_field_of_coder_is_in_the_tables() {
    let fields = fields(&read(DEFINITIONS));
    assert!(fields.len() > 40, "{fields:?}");
    for field in [
        "server.tokenSecretRef.key",
        "key.rotateAfter",
        "tags",
        "resources",
    ] {
        assert!(fields.iter().any(|it| it == field), "{fields:?}");
    }
    explained("docs/coder.md", &fields);
}
