//! The README's Go and Python are lines of tests that run; here only that they still are.

use std::fs;
use std::path::Path;

/// The blocks of the README in one language.
fn blocks(language: &str) -> Vec<String> {
    let readme = include_str!("../../README.md");
    let fence = format!("```{language}\n");
    let rest = readme.split(&fence).skip(1);
    rest.map(|text| text.split("```").next().unwrap_or_default().to_owned())
        .collect()
}

fn are_part_of(language: &str, test: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(test);
    let source = fs::read_to_string(path).expect("the test is in the repository");
    let blocks = blocks(language);
    assert!(!blocks.is_empty(), "no {language} in the README");
    for block in blocks {
        assert!(source.contains(&block), "{test} has no longer:\n{block}");
    }
}

#[test]
fn go_is_part_of_a_test() {
    are_part_of("go", "interop/controller-runtime/box_test.go");
}

#[test]
fn python_is_part_of_a_test() {
    are_part_of("python", "interop/python/test_box.py");
}
