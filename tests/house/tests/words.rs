//! The words that people see in conditions and responses are explained, each of them.

use std::fs;
use std::path::Path;

/// Where words of tunnels are declared.
const SOURCES: [&str; 2] = [
    "crates/api/src/tunnel/words.rs",
    "crates/gateway/src/reason.rs",
];

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
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

#[test]
fn every_condition_and_reason_of_tunnels_is_explained() {
    let page = read("docs/tunnel.md");
    let words: Vec<String> = SOURCES
        .into_iter()
        .flat_map(|it| declared(&read(it)))
        .collect();
    assert!(words.len() > 40, "{words:?}");
    for word in words {
        let told = page.contains(&format!("`{word}`"));
        assert!(told, "docs/tunnel.md does not tell of {word}");
    }
}
