//! Every relative link of a page leads to something that is there. Other addresses are not asked for.

use xtask::root;
use xtask::source::load;

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
    for page in load(&root).expect("the repository") {
        if !page.path.ends_with(".md") {
            continue;
        }
        let folder = root.join(page.path.trim_end_matches(page.name()));
        for target in links(&page.text) {
            seen += 1;
            if !folder.join(target).exists() {
                dead.push(format!("{}: {target}", page.path));
            }
        }
    }
    assert!(seen > 50, "only {seen} links were found");
    assert!(dead.is_empty(), "{dead:#?}");
}
