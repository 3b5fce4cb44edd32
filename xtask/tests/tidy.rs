//! The repository keeps its rules, and each rule is seen to fail.

use xtask::rules::RULES;
use xtask::source::{COMMITS, METADATA, SourceFile, load, mark_test_modules};
use xtask::tidy::{BASELINE, new_baseline, run};
use xtask::{read, root};

const FOUND: &str = "crates/a/src/lib.rs";
const HEAD: &str = "//! A crate.\n#![forbid(unsafe_code)]\n";

#[test]
fn the_repository_is_tidy() {
    let files = load(&root()).expect("the repository");
    assert!(files.len() > 1_000, "{} files", files.len());
    let lines = run(&files, &read(BASELINE));
    assert!(lines.is_empty(), "{}", lines.join("\n"));
}

/// A repository of one tidy crate and these files.
fn repository(planted: &[(&str, &str)]) -> Vec<SourceFile> {
    let mut files: Vec<SourceFile> = planted.iter().map(|(path, text)| SourceFile::new(path, text)).collect();
    if !planted.iter().any(|(path, _)| *path == FOUND) {
        let lines = "fn f() {}\n".repeat(60);
        files.push(SourceFile::new(FOUND, &format!("{HEAD}{lines}pub struct Once;\n")));
    }
    mark_test_modules(&mut files);
    files
}

/// What breaks each rule, and nothing but that rule.
#[allow(clippy::too_many_lines, reason = "it is a table")]
fn planted() -> Vec<(&'static str, Vec<(&'static str, String)>)> {
    let long = "fn f() {}\n".repeat(60);
    let lib = |text: &str| vec![(FOUND, format!("{HEAD}{text}\n{long}"))];
    let file = |path, text: &str| vec![(path, format!("//! A file.\n{text}\n{long}"))];
    let tests = format!("#[cfg(test)]\nmod tests {{\n{long}{long}{long}}}\n");
    let banned = concat!("// Taken by no", "body.");
    let edge =
        r#"{"packages": [{"name": "aplomb-api", "dependencies": [{"name": "aplomb", "path": "x", "kind": null}]}]}"#;
    vec![
        ("unique-types", file("crates/a/src/b.rs", "pub(crate) enum Once {}")),
        ("banned-names", file("crates/a/src/b.rs", "struct Purse;")),
        ("banned-names", file("crates/a/src/office/b.rs", "")),
        ("as-str", lib("fn word() {}")),
        (
            "metric-names",
            lib("fn g() { registry.register(\n    \"reconcile\", 1); }"),
        ),
        ("banned-words", lib(banned)),
        ("banned-words", vec![("docs/a.md", banned.to_owned())]),
        (
            "banned-words",
            vec![("deploy/a.yaml", format!("a: b {}", banned.replace("//", "#")))],
        ),
        ("commit-subjects", vec![(COMMITS, "abc123 Do it\n".to_owned())]),
        (
            "commit-subjects",
            vec![(COMMITS, format!("abc123 runtime: taken {}\n", &banned[9..]))],
        ),
        ("mod-rs", file("crates/a/src/b/mod.rs", "")),
        ("test-files", file("crates/a/src/b_tests.rs", "")),
        ("path-attributes", lib("#[path = \"c.rs\"]\nmod b;")),
        ("inline-tests", lib(&tests)),
        ("file-length", lib(&long.repeat(10))),
        ("small-files", vec![("crates/a/src/b.rs", "//! A file.\n".to_owned())]),
        (
            "small-files",
            vec![(
                "xtask/small-files.txt",
                "crates/a/src/gone.rs\tIt was small.\n".to_owned(),
            )],
        ),
        ("file-heads", vec![("crates/a/src/b.rs", long.clone())]),
        ("forbid-unsafe", vec![(FOUND, format!("//! A crate.\n{long}"))]),
        ("edges", vec![(METADATA, edge.to_owned())]),
        ("edges", vec![(METADATA, edge.replace("aplomb-api", "aplomb-new"))]),
        ("std-sync", lib("use std::sync::{Arc, Mutex};")),
        ("kube-params", lib("fn g() { PatchParams::default(); }")),
        ("spawn", lib("fn g() { tokio::spawn(async {}); }")),
        (
            "missing-docs",
            vec![("testbed/cel/src/lib.rs", format!("{HEAD}{long}"))],
        ),
    ]
}

#[test]
fn each_rule_fails_on_a_planted_violation_and_no_other_does() {
    assert_eq!(run(&repository(&[]), ""), [""; 0]);
    let planted = planted();
    for rule in RULES {
        assert!(
            planted.iter().any(|(name, _)| *name == rule.name),
            "{} has no planted violation",
            rule.name
        );
    }
    for (rule, files) in &planted {
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
        let lines = run(&repository(&files), "");
        assert!(!lines.is_empty(), "{rule} does not see {}", files[0].0);
        let mark = format!(": {rule}: ");
        assert!(lines.iter().all(|line| line.contains(&mark)), "{rule}: {lines:#?}");
    }
}

#[test]
fn the_baseline_lets_pass_what_it_counts_and_only_shrinks() {
    let text = format!(
        "{HEAD}fn word() {{}}\nfn g() {{ fn word() {{}} }}\n{}",
        "fn f() {}\n".repeat(60)
    );
    let files = repository(&[(FOUND, &text)]);
    let baseline = new_baseline(&files, "as-str\tcrates/a/src/lib.rs\t9\t11\n");
    assert_eq!(baseline.lines().last(), Some("as-str\tcrates/a/src/lib.rs\t2\t11"));
    assert_eq!(run(&files, &baseline), [""; 0]);
    let short = run(&files, &baseline.replace("\t2\t", "\t1\t"));
    assert_eq!(short.len(), 2, "{short:?}");
    let large = run(&files, &baseline.replace("\t2\t", "\t3\t"));
    assert!(large[0].contains("lower it from 3") && large.len() == 1, "{large:?}");
    let gone = run(&repository(&[]), &baseline);
    assert!(gone[0].contains("remove the line") && gone.len() == 1, "{gone:?}");
}

#[test]
fn tests_comments_and_literals_are_not_code() {
    let text = "fn a() {} // fn word\nconst B: &str = \"fn word\\\" {\"; const C: char = '\"';\n#[cfg(test)]\nmod tests {\n    fn word() {}\n}\nconst D: &str = r#\"\"fn word\"#; /* /* */ fn word */\n#[cfg(test)]\nmod wide;\n";
    let files = repository(&[
        (FOUND, &format!("{HEAD}{text}{}", "fn f() {}\n".repeat(60))),
        ("crates/a/src/wide.rs", "//! A test.\nfn word() {}\n"),
    ]);
    assert_eq!(run(&files, ""), [""; 0]);
    assert_eq!(
        files[0].test_lines.iter().copied().collect::<Vec<_>>(),
        [5, 6, 7, 8, 10, 11]
    );
}

#[test]
fn the_readme_is_a_page_or_two() {
    let lines = read("README.md").lines().count();
    assert!((80..=180).contains(&lines), "README.md has {lines} lines");
}
