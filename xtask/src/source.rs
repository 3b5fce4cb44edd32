//! The files of the repository as rules see them: text, code without comments and literals, and what only tests run.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use regex::Regex;

/// What `cargo metadata` prints, as a file among the others.
pub const METADATA: &str = "(cargo metadata)";
/// The commits since these checks exist, as `hash subject` lines.
pub const COMMITS: &str = "(git log)";
const ENDINGS: [&str; 7] = [".rs", ".md", ".yaml", ".yml", ".txt", ".tpl", "Makefile"];

/// One file. Paths are relative to the root of the repository, with `/`.
#[derive(Debug, Default)]
pub struct SourceFile {
    pub path: String,
    pub text: String,
    /// As long as `text`; comments and the inside of literals are blank.
    pub code: String,
    /// As long as `text`; comments are blank.
    pub uncommented: String,
    /// Comments and string literals, with the lines they begin on.
    pub prose: Vec<(usize, String)>,
    /// Lines under `#[cfg(test)]`, from 1.
    pub test_lines: BTreeSet<usize>,
    /// Whether only tests and benches are made of the whole file.
    pub is_test: bool,
    pub is_generated: bool,
}

impl SourceFile {
    pub fn new(path: &str, text: &str) -> Self {
        let mut file = Self {
            path: path.to_owned(),
            text: text.to_owned(),
            ..Self::default()
        };
        if path.ends_with(".rs") {
            file.scan();
            file.test_lines = test_items(&file.code)
                .flat_map(|(start, end)| line_of(text, start)..=line_of(text, end))
                .collect();
            let in_src = path.contains("/src/");
            let apart = ["/tests/", "/benches/", "/examples/"];
            file.is_test = apart.iter().any(|folder| path.contains(folder) && !in_src)
                || path.ends_with("/tests.rs")
                || in_src && path.contains("/tests/")
                || path.ends_with("_tests.rs");
        }
        let head: String = text.lines().take(5).collect::<Vec<_>>().join("\n");
        file.is_generated =
            head.contains("@generated") || head.contains("enerated") && head.to_lowercase().contains("do not edit");
        file
    }

    /// Whether it is a source of the product, tests included.
    pub fn is_product(&self) -> bool {
        self.path.starts_with("crates/") && self.path.ends_with(".rs")
    }

    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// `crates/x` or `testbed/x`, else the first folder; a file of the root is its own.
    pub fn folder(&self) -> &str {
        let depth = match self.path.split('/').next() {
            Some("crates" | "testbed") => 2,
            _ => 1,
        };
        let end = self.path.match_indices('/').nth(depth - 1);
        end.map_or(&self.path, |(at, _)| &self.path[..at])
    }

    /// The lines of `part` (of this file's `code` or `uncommented`) that the crate is made of, tests apart.
    pub fn production<'a>(&'a self, part: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
        let lines = part.lines().zip(1..).map(|(line, at)| (at, line));
        lines.filter(|(at, _)| !self.is_test && !self.test_lines.contains(at))
    }

    /// Tells code, comments and literals apart.
    fn scan(&mut self) {
        static TOKEN: LazyLock<Regex> = LazyLock::new(|| {
            let pattern = r##"(?s)(?P<comment>//[^\n]*)|(?P<block>/\*)|\bb?c?r(?P<hash>#*)"|(?P<string>b?c?"(?:\\.|[^"\\])*")|b?'(?:\\(?:u\{[^}]*\}|x..|.)|[^'\\\n])'|'\w+"##;
            Regex::new(pattern).expect("it is fixed")
        });
        let text = std::mem::take(&mut self.text);
        let (mut code, mut uncommented) = (String::new(), String::new());
        let (mut at, mut line) = (0, 1);
        while let Some(found) = TOKEN.captures_at(&text, at) {
            let (start, mut end) = found.get(0).map_or((0, 0), |all| (all.start(), all.end()));
            let is_comment = found.name("comment").is_some() || found.name("block").is_some();
            if found.name("block").is_some() {
                end = end_of_block(&text, end);
            } else if let Some(hash) = found.name("hash") {
                let close = format!("\"{}", hash.as_str());
                end = text[end..].find(&close).map_or(text.len(), |it| end + it + close.len());
            }
            let piece = &text[start..end];
            line += newlines(&text[at..start]);
            for part in [&mut code, &mut uncommented] {
                part.push_str(&text[at..start]);
            }
            let is_literal = found.name("string").is_some() || found.name("hash").is_some();
            if is_comment || is_literal {
                self.prose.push((line, piece.to_owned()));
            }
            line += newlines(piece);
            code.push_str(&blank(piece, is_literal));
            uncommented.push_str(&if is_comment {
                blank(piece, false)
            } else {
                piece.to_owned()
            });
            at = end;
        }
        code.push_str(&text[at..]);
        uncommented.push_str(&text[at..]);
        (self.code, self.uncommented, self.text) = (code, uncommented, text);
    }
}

/// Spaces instead of a comment or literal; the quotes of a literal stay.
fn blank(piece: &str, quotes: bool) -> String {
    let kept = |at: usize, byte: u8| byte == b'\n' || quotes && byte == b'"' && (at == 0 || at + 1 == piece.len());
    let bytes = piece.bytes().enumerate();
    bytes
        .map(|(at, byte)| if kept(at, byte) { char::from(byte) } else { ' ' })
        .collect()
}

fn end_of_block(text: &str, from: usize) -> usize {
    let (mut depth, mut at) = (1, from);
    while depth > 0 {
        let Some(next) = text[at..].find(['/', '*']).map(|it| at + it) else {
            return text.len();
        };
        at = match text.get(next..next + 2) {
            Some("/*") => {
                depth += 1;
                next + 2
            }
            Some("*/") => {
                depth -= 1;
                next + 2
            }
            _ => next + 1,
        };
    }
    at
}

/// The line, from 1, that an offset is in.
pub fn line_of(text: &str, offset: usize) -> usize {
    newlines(&text[..offset.min(text.len())]) + 1
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// Where each item under `#[cfg(test)]` begins and ends.
pub fn test_items(code: &str) -> impl Iterator<Item = (usize, usize)> {
    static CFG: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"#(!?)\s*\[\s*cfg\s*\(\s*(?:test|all\((?:[^\]]*,\s*)?test\b[^\]]*)\s*\)\s*\]").expect("it is fixed")
    });
    CFG.captures_iter(code).map(|found| {
        let (start, end) = found.get(0).map_or((0, 0), |all| (all.start(), all.end()));
        let whole_file = !found[1].is_empty();
        (
            if whole_file { 0 } else { start },
            if whole_file { code.len() } else { end_of_item(code, end) },
        )
    })
}

/// Where the item that begins at `from` ends: behind its braces, or at the `;` or `,` of a short one.
fn end_of_item(code: &str, from: usize) -> usize {
    let mut depth = 0;
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b';' | b',' if depth == 0 => return at + 1,
            b'{' => return end_of_braces(code, at),
            b'}' => return at,
            _ => {}
        }
    }
    code.len()
}

/// Where the brace, bracket or parenthesis that opens at `from` is closed.
pub fn end_of_braces(code: &str, from: usize) -> usize {
    let mut depth = 0;
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return at + 1;
        }
    }
    code.len()
}

/// Marks the files that are modules declared under `#[cfg(test)]`.
pub fn mark_test_modules(files: &mut [SourceFile]) {
    static MODULE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\bmod\s+(\w+)\s*;").expect("it is fixed"));
    let mut tests = BTreeSet::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let folder = file.path.trim_end_matches(file.name());
        let stem = match file.name() {
            "mod.rs" | "lib.rs" | "main.rs" => folder.to_owned(),
            name => format!("{folder}{}/", name.trim_end_matches(".rs")),
        };
        for (start, end) in test_items(&file.code) {
            for found in MODULE.captures_iter(&file.code[start..end]) {
                tests.insert(format!("{stem}{}.rs", &found[1]));
                tests.insert(format!("{stem}{}/", &found[1]));
            }
        }
    }
    for file in files {
        let below = |test: &String| test.ends_with('/') && file.path.starts_with(test.as_str());
        file.is_test |= tests.contains(&file.path) || tests.iter().any(below);
    }
}

/// Every file that the rules look at, with what cargo and git print.
pub fn load(root: &Path) -> Result<Vec<SourceFile>, String> {
    let paths = output(root, "git", &["ls-files", "--cached", "--others", "--exclude-standard"])?;
    let ours = |path: &&str| ENDINGS.iter().any(|end| path.ends_with(end));
    let mut files = Vec::new();
    for path in paths.lines().filter(ours) {
        // A file that was removed and not yet committed is still listed.
        if let Ok(text) = std::fs::read_to_string(root.join(path)) {
            files.push(SourceFile::new(path, &text));
        }
    }
    mark_test_modules(&mut files);
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let metadata = output(
        root,
        &cargo,
        &["metadata", "--format-version=1", "--no-deps", "--offline"],
    )?;
    files.push(SourceFile::new(METADATA, &metadata));
    files.push(SourceFile::new(COMMITS, &commits(root)));
    Ok(files)
}

/// A shallow clone and an archive have no history: nothing is checked there.
fn commits(root: &Path) -> String {
    let first = ["log", "--diff-filter=A", "--format=%H", "--", "xtask/src/main.rs"];
    let first = output(root, "git", &first).unwrap_or_default();
    let Some(first) = first.lines().last() else {
        return String::new();
    };
    let range = format!("{first}..HEAD");
    output(root, "git", &["log", "--no-merges", "--format=%h %s", &range]).unwrap_or_default()
}

/// What a program prints.
pub fn output(root: &Path, program: &str, args: &[&str]) -> Result<String, String> {
    let ran = Command::new(program).args(args).current_dir(root).output();
    let ran = ran.map_err(|error| format!("{program}: {error}"))?;
    if !ran.status.success() {
        return Err(format!("{program}: {}", String::from_utf8_lossy(&ran.stderr)));
    }
    String::from_utf8(ran.stdout).map_err(|error| format!("{program}: {error}"))
}
