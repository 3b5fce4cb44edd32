//! The names that others rely on are those of the golden files.

use std::fs;

use xtask::golden::{LISTS, differences};
use xtask::source::load;

#[test]
fn frozen_names_are_as_they_were() {
    let root = xtask::root();
    let files = load(&root).expect("the repository");
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut changed = Vec::new();
    for (name, derive) in LISTS {
        let path = root.join("xtask/golden").join(name);
        let names = derive(&files);
        assert!(names.len() > 3, "{name}: {names:?}");
        if update {
            let lines: String = names.iter().map(|line| format!("{line}\n")).collect();
            fs::write(&path, lines).expect("written");
        }
        let golden = fs::read_to_string(&path).unwrap_or_default();
        let found = differences(&golden, &names);
        changed.extend(
            found
                .into_iter()
                .map(|line| format!("xtask/golden/{name}: {line}")),
        );
    }
    assert!(
        changed.is_empty(),
        "{}\nNames changed that others rely on. If that is meant, say so in CHANGELOG.md and run \
         UPDATE_GOLDEN=1 cargo test -p xtask --test golden",
        changed.join("\n")
    );
}
