//! Every test that ARCHITECTURE.md names as the check of an invariant exists in the crate that it names.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A name of the form `CRATE: FILE::TEST`, as crate and test.
fn named(page: &str) -> Vec<(&str, &str)> {
    let quoted = page.split('`').skip(1).step_by(2);
    let is_crate = |name: &str| name.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    quoted
        .filter_map(|text| {
            let (package, path) = text.split_once(": ")?;
            let (_, test) = path.rsplit_once("::")?;
            is_crate(package).then_some((package, test))
        })
        .collect()
}

/// The folder of a crate. While a crate of the testbed is still part of another one, that is the testbed.
fn folder(package: &str) -> PathBuf {
    let candidates = ["crates", "testbed", "."].map(|it| root().join(it).join(package));
    let found = candidates.into_iter().find(|it| it.join("Cargo.toml").exists());
    found.unwrap_or_else(|| root().join("testbed"))
}

fn declares(folder: &Path, function: &str) -> bool {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut paths = entries.map(|entry| entry.expect("an entry").path());
    paths.any(|path| {
        if path.is_dir() {
            return declares(&path, function);
        }
        let source = path.extension().is_some_and(|it| it == "rs");
        source && fs::read_to_string(&path).expect("readable").contains(function)
    })
}

#[test]
fn the_tests_of_the_invariants_exist() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("readable");
    let table = page.split("## What must stay true").nth(1).expect("there is a table");
    let named = named(table);
    assert!(named.len() > 40, "{named:?}");
    let missing: Vec<_> = named
        .into_iter()
        .filter(|(package, test)| !declares(&folder(package), &format!("fn {test}(")))
        .collect();
    assert!(missing.is_empty(), "no such test: {missing:?}");
}

#[test]
fn a_name_without_a_test_is_noticed() {
    assert_eq!(
        named("see `runtime: queue::gone` and `make test`"),
        [("runtime", "gone")]
    );
    assert!(!declares(&folder("runtime"), concat!("fn ", "no_such_test(")));
}
