//! The names that others rely on are those of the golden files.

use std::fs;

use xtask::golden::{LISTS, differences};
use xtask::source::{SourceFile, load};

#[test]
fn frozen_names_are_as_they_were() {
    let root = xtask::root();
    let mut files = load(&root).expect("the repository");
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    for (name, derive) in LISTS {
        let names = derive(&files);
        assert!(names.len() > 3, "{name}: {names:?}");
        if update {
            let lines: String = names.iter().map(|line| format!("{line}\n")).collect();
            fs::write(root.join("xtask/golden").join(name), lines).expect("written");
        }
        let path = format!("xtask/golden/{name}");
        assert!(
            update || files.iter().any(|file| file.path == path),
            "{path} is missing"
        );
    }
    if update {
        files = load(&root).expect("the repository");
    }
    let changed = differences(&files);
    assert!(changed.is_empty(), "{}", changed.join("\n"));
}

#[test]
fn a_renamed_field_is_seen_and_a_renamed_type_is_not() {
    let golden = SourceFile::new("xtask/golden/json.txt", "{name since}\n");
    let lines = |source: &str| {
        let source = format!("#[derive(Serialize)]\npub struct {source}");
        let golden = SourceFile::new(&golden.path, &golden.text);
        differences(&[golden, SourceFile::new("crates/a/src/lib.rs", &source)])
    };
    assert_eq!(lines("Row { pub since: u8, pub name: String }"), [""; 0]);
    let renamed = lines("Line { since: u8, title: String }");
    assert!(renamed[0].contains("-{name since}") && renamed[1].contains("+{since title}"));
}
