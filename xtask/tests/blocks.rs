//! Every command block of the documentation can be run as it stands, or says why it is not.
//!
//! `tools/make/docs` and `tools/make/readme` run them; this holds pages to a form that those understand.

use std::collections::BTreeSet;

use xtask::source::{SourceFile, load};

/// What fences may be of. Commands are `sh` and nothing else, or nothing would run them.
const LANGUAGES: [&str; 8] = ["sh", "rust", "rust,no_run", "yaml", "json", "toml", "text", "promql"];
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

fn repository() -> Vec<SourceFile> {
    load(&xtask::root()).expect("the repository")
}

fn all() -> Vec<Block> {
    let is_page = |file: &&SourceFile| {
        let page = ["README.md", "crates/runtime/README.md"].contains(&&*file.path);
        page || file.path.starts_with("docs/") && file.path.ends_with(".md")
    };
    let files = repository();
    let pages = files.iter().filter(is_page);
    pages.flat_map(|page| blocks(&page.path, &page.text)).collect()
}

/// What a reader would have to replace before the command means anything.
fn placeholders(text: &str) -> Vec<String> {
    let commands = text.lines().map(|line| line.split(" #").next().unwrap_or(line));
    let words = commands.flat_map(|line| {
        let parts = line.split(|c: char| !c.is_ascii_alphanumeric() && !"_$={}.:?@%<\"".contains(c));
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
        assert!(known, "{}: {:?} is not a language", block.place, block.language);
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
            Some(reason) => assert!(reason.split(' ').count() > 1, "{place}: {reason:?} is not a reason"),
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
    let page =
        "```\nx\n```\n\n<!-- not run: needs a cloud -->\n```sh\nrun NAME\n```\n```sh\nkubectl get hp NAME\n```\n";
    let found = blocks("page", page);
    assert_eq!(found[0].language, "");
    assert_eq!(found[1].reason.as_deref(), Some("needs a cloud"));
    assert_eq!(found[2].reason, None);
    assert_eq!(placeholders(&found[2].text), ["NAME"]);
    let typed = "NAME=web  # the NAME\nkubectl -n $NAMESPACE get hp ${NAME} -o jsonpath='{.NAME}'\ncurl -X PUT x\n";
    assert!(placeholders(typed).is_empty(), "{:?}", placeholders(typed));
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
    let all_files = repository();
    let sources = all_files.iter().filter(|file| file.is_rust());
    let files: Vec<BTreeSet<&str>> = sources.map(|file| lines(&file.text)).collect();
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
