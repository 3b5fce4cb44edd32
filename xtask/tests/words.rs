//! The words that people see in conditions and responses are explained, each of them, and so is every field
//! of Coder's kinds.

use xtask::read;
use xtask::source::{SourceFile, load};

/// The definitions of Coder's kinds, as they are installed.
const DEFINITIONS: &str = "deploy/coder/00-crds.yaml";
/// The sources below any of `folders`, tests apart.
fn sources(folders: &[&str]) -> String {
    let files = load(&xtask::root()).expect("the repository");
    let ours = |file: &&SourceFile| folders.iter().any(|folder| file.path.starts_with(folder));
    let mut text = String::new();
    for file in files.iter().filter(ours) {
        let lines = file.production(&file.uncommented);
        text.extend(lines.flat_map(|(_, line)| [line, "\n"]));
    }
    text
}

/// The constants that are one capitalised word, as conditions and reasons are.
fn declared(source: &str) -> Vec<String> {
    let lines = source.lines().filter(|line| line.contains("pub const "));
    let values = lines.filter_map(|line| line.split('"').nth(1));
    let word = |value: &&str| value.starts_with(char::is_uppercase) && value.chars().all(char::is_alphanumeric);
    values.filter(word).map(str::to_owned).collect()
}

/// Every one of `words` stands in backticks on the page.
fn explained(page: &str, words: &[String]) {
    let text = read(page);
    for word in words {
        let named = text.contains(&format!("`{word}`"));
        assert!(named, "{page} does not name {word}");
    }
}

#[test]
fn every_condition_and_reason_of_tunnels_is_explained() {
    let words = declared(&sources(&["crates/api/src/tunnel", "crates/tunnel-gateway/src"]));
    assert!(words.len() > 40, "{words:?}");
    explained("docs/tunnel.md", &words);
}

#[test]
fn every_condition_and_reason_of_coder_is_explained() {
    let words = declared(&sources(&["crates/api/src/coder"]));
    assert!(words.len() > 40, "{words:?}");
    explained("docs/coder.md", &words);
}

/// The reasons of the Events that a source publishes.
fn events(source: &str) -> Vec<String> {
    let notes = ["Note::normal(", "Note::warning("];
    let notes = notes.iter().flat_map(|call| source.split(*call).skip(1));
    let reasons = notes.filter_map(|rest| rest.trim_start().strip_prefix('"'));
    let reasons = reasons.filter_map(|rest| rest.split('"').next());
    reasons.map(str::to_owned).collect()
}

#[test]
fn every_event_of_coder_is_explained() {
    let found = events(&sources(&["crates/coder-operator/src"]));
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
    for field in ["server.tokenSecretRef.key", "key.rotateAfter", "tags", "resources"] {
        assert!(fields.iter().any(|it| it == field), "{fields:?}");
    }
    explained("docs/coder.md", &fields);
}
