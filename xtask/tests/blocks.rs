//! Every command block of the documentation can be run as it stands, or says why it is not.
//!
//! `tools/make/docs` and `tools/make/readme` run them; this holds pages to a form that those understand.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What fences may be of. Commands are `sh` and nothing else, or nobody would run them.
const LANGUAGES: [&str; 8] = [
    "sh",
    "rust",
    "rust,no_run",
    "yaml",
    "json",
    "toml",
    "text",
    "promql",
];
/// Words in capitals that stand for themselves.
const PLAIN: [&str; 12] = [
    "PUT", "POST", "GET", "DELETE", "EOF", "HTTP", "BEGIN", "END", "TLS", "URL", "PASS", "FAIL",
];
const MARK: &str = "<!-- not run: ";

struct Block {
    place: String,
    language: String,
    text: String,
    reason: Option<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn pages(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            pages(&path, all);
        } else if path.extension().is_some_and(|it| it == "md") {
            all.push(path);
        }
    }
}

/// The blocks of a page; one that is never closed is a panic.
fn blocks(page: &str, text: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let (mut open, mut before) = (false, "");
    for (at, line) in text.lines().enumerate() {
        let fence = line.trim_start().strip_prefix("```");
        match fence {
            Some(_) if open => open = false,
            Some(language) => {
                open = true;
                let reason = before.strip_prefix(MARK);
                found.push(Block {
                    place: format!("{page}:{}", at + 1),
                    language: language.to_owned(),
                    text: String::new(),
                    reason: reason.map(|it| it.trim_end_matches(" -->").to_owned()),
                });
            }
            None if open => {
                let block = found.last_mut().expect("one is open");
                block.text.push_str(line);
                block.text.push('\n');
            }
            None => {}
        }
        before = line;
    }
    assert!(!open, "{page}: a block is not closed");
    found
}

fn all() -> Vec<Block> {
    let root = root();
    let mut paths = vec![
        root.join("README.md"),
        root.join("crates/runtime/README.md"),
    ];
    pages(&root.join("docs"), &mut paths);
    let of = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("readable");
        let name = path.strip_prefix(&root).expect("in the checkout");
        blocks(&name.to_string_lossy(), &text)
    };
    paths.into_iter().flat_map(of).collect()
}

/// What a reader would have to replace before the command means anything.
fn placeholders(text: &str) -> Vec<String> {
    let commands = text
        .lines()
        .map(|line| line.split(" #").next().unwrap_or(line));
    let words = commands.flat_map(|line| {
        let parts =
            line.split(|c: char| !c.is_ascii_alphanumeric() && !"_$={}.:?@%<\"".contains(c));
        parts.map(str::to_owned).collect::<Vec<_>>()
    });
    let stands_for_another = |word: &String| {
        let capitals = word.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        word.len() > 2 && capitals && !PLAIN.contains(&&**word)
    };
    words.filter(stands_for_another).collect()
}

#[test]
fn every_fence_says_what_it_holds() {
    for block in all() {
        let known = LANGUAGES.contains(&&*block.language);
        assert!(
            known,
            "{}: {:?} is no language",
            block.place, block.language
        );
    }
}

#[test]
fn every_command_block_runs_or_says_why_not() {
    let blocks = all();
    let commands: Vec<&Block> = blocks.iter().filter(|it| it.language == "sh").collect();
    assert!(commands.len() > 60, "{}", commands.len());
    for block in commands {
        let place = &block.place;
        match &block.reason {
            Some(reason) => assert!(
                reason.split(' ').count() > 1,
                "{place}: {reason:?} is no reason"
            ),
            None => {
                let open = placeholders(&block.text);
                assert!(open.is_empty(), "{place} cannot be typed: {open:?}");
                let usage = block.text.contains("[--") || block.text.contains(" ... ");
                assert!(!usage, "{place} is a usage line, not a command");
            }
        }
    }
}

#[test]
fn a_page_that_could_not_be_typed_is_seen() {
    let page = "```\nx\n```\n\n<!-- not run: needs a cloud -->\n```sh\nrun NAME\n```\n```sh\nkubectl get hp NAME\n```\n";
    let found = blocks("page", page);
    assert_eq!(found[0].language, "");
    assert_eq!(found[1].reason.as_deref(), Some("needs a cloud"));
    assert_eq!(found[2].reason, None);
    assert_eq!(placeholders(&found[2].text), ["NAME"]);
    let typed = "NAME=web  # the NAME\nkubectl -n $NAMESPACE get hp ${NAME} -o jsonpath='{.NAME}'\ncurl -X PUT x\n";
    assert!(placeholders(typed).is_empty(), "{:?}", placeholders(typed));
}

fn sources(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|it| it == "rs") {
            all.push(path);
        }
    }
}

/// The lines of a source file or a block, without what makes them documentation.
fn lines(text: &str) -> BTreeSet<&str> {
    let bare = text.lines().map(|line| {
        let line = line.trim();
        let doc = ["//! ", "/// "].iter();
        doc.fold(line, |line, mark| line.strip_prefix(mark).unwrap_or(line))
            .trim()
    });
    bare.filter(|line| !line.is_empty()).collect()
}

/// Documentation quotes: what is compiled and tested elsewhere cannot rot here.
#[test]
fn every_rust_block_stands_in_a_file_that_is_compiled() {
    let mut paths = Vec::new();
    for folder in ["crates", "testbed"] {
        sources(&root().join(folder), &mut paths);
    }
    let texts: Vec<String> = paths
        .iter()
        .map(|path| fs::read_to_string(path).expect("readable"))
        .collect();
    let files: Vec<BTreeSet<&str>> = texts.iter().map(|text| lines(text)).collect();
    let blocks = all();
    // A crate's own page is compiled as a whole.
    let own = |place: &str| place.starts_with("crates/") || place.starts_with("testbed/");
    let quoted = |it: &&Block| it.language == "rust" && !own(&it.place);
    for block in blocks.iter().filter(quoted) {
        let wanted = lines(&block.text);
        let found = files.iter().any(|file| wanted.is_subset(file));
        assert!(found, "{} is in no source file", block.place);
    }
}
