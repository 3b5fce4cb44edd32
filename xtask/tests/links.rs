//! Every relative link of a page leads to something that is there. Other addresses are not asked for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()
        .expect("the checkout")
}

fn pages(root: &Path) -> Vec<PathBuf> {
    let output = Command::new("git")
        .args(["ls-files", "*.md"])
        .current_dir(root)
        .output()
        .expect("git runs");
    let listing = String::from_utf8(output.stdout).expect("paths are UTF-8");
    listing.lines().map(|line| root.join(line)).collect()
}

/// The files that a page links to.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let after = text.split("](").skip(1);
    let targets = after.filter_map(|rest| rest.split([')', '#', ' ', '\n']).next());
    targets.filter(|target| !target.is_empty() && !target.contains(':'))
}

#[test]
fn every_link_leads_somewhere() {
    let root = root();
    let (mut seen, mut dead) = (0, Vec::new());
    for page in pages(&root) {
        let text = fs::read_to_string(&page).expect("a page");
        let folder = page.parent().expect("a page is in a folder");
        for target in links(&text) {
            seen += 1;
            if !folder.join(target).exists() {
                dead.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(seen > 50, "only {seen} links were found");
    assert!(dead.is_empty(), "{dead:#?}");
}
