//! Every test that the documentation names is there.

use xtask::read;
use xtask::source::load;

/// The texts between backticks that have the form of a path to a test.
fn named(text: &str) -> Vec<Vec<&str>> {
    let quoted = text.split('`').skip(1).step_by(2);
    let paths = quoted.map(|name| name.split("::").collect::<Vec<_>>());
    let word = |part: &&str| part.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    paths.filter(|path| path.len() > 1 && path.iter().all(word)).collect()
}

#[test]
fn the_tests_behind_the_promises_exist() {
    let text = read("docs/runtime.md");
    let promises = text.split("## Promises").nth(1).expect("there is a list");
    let named = named(promises);
    assert!(named.len() > 15, "{named:?}");
    let files = load(&xtask::root()).expect("the repository");
    for path in named {
        let (test, modules) = path.split_last().expect("it has two parts");
        let (head, file) = (format!("fn {test}("), format!("/{}.rs", modules.join("/")));
        let exists = files
            .iter()
            .any(|it| it.path.starts_with("crates/runtime/") && it.path.ends_with(&file) && it.text.contains(&head));
        assert!(exists, "{} is gone", path.join("::"));
    }
}
