//! Every test that the documentation names is there.

use std::fs;
use std::path::PathBuf;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The texts between backticks that have the form of a path to a test.
fn named(text: &str) -> Vec<Vec<&str>> {
    let quoted = text.split('`').skip(1).step_by(2);
    let paths = quoted.map(|name| name.split("::").collect::<Vec<_>>());
    let word = |part: &&str| part.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    paths
        .filter(|path| path.len() > 1 && path.iter().all(word))
        .collect()
}

#[test]
fn the_tests_behind_the_promises_exist() {
    let text = fs::read_to_string(root().join("docs/runtime.md")).expect("readable");
    let promises = text.split("## Promises").nth(1).expect("there is a list");
    let named = named(promises);
    assert!(named.len() > 15, "{named:?}");
    for path in named {
        let (test, modules) = path.split_last().expect("it has two parts");
        let place = match modules[0] {
            "cache" => "crates/runtime/src",
            _ => "crates/runtime/tests/acceptance",
        };
        let file = root().join(place).join(format!("{}.rs", modules.join("/")));
        let source = fs::read_to_string(&file);
        let source = source.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert!(
            source.contains(&format!("fn {test}(")),
            "{} is gone",
            path.join("::")
        );
    }
}
