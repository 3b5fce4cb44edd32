//! Names: each means one thing, and is a word of the field.

use std::collections::BTreeMap;

use super::{TYPE, Violation, matches, regex};
use crate::source::SourceFile;

/// Names that a crate may define once.
const ONCE_PER_CRATE: [&str; 3] = ["Error", "Result", "BoxError"];
/// Names that each pipeline may define for itself.
const ONCE_PER_MODULE: [&str; 3] = ["Observed", "Step", "Progress"];
/// Names that only the module above may see.
const LOCAL: [&str; 3] = ["Inner", "State", "Shared"];
const MODULES: &str = "office memory world words seen said times wanted farewell hindrance pushback purse desk thrift \
    tidings wording scene movement elsewhere vantage interest pace stakes crew guard beat heart station contest history \
    wiring pump lesson learn dialect shelf place shell own course drive known";
const TYPES: &str = "Desk Purse Crew Contest Contests Furniture Tidings Office Whose What On By Of Told News \
    Farewell Wishes Patience Sequel Books Teller Stakes Heart Beat Station Ground Elsewhere Scene Errand Door Untold \
    Peculiarity Breakage Wanted Said Lesson Shelf Hindrance Pushback Thrift Papers Losses";
const PREFIXES: [&str; 5] = [
    "aplomb_",
    "controller_runtime_",
    "leader_election_",
    "rest_client_",
    "workqueue_",
];

/// One definition of each public type in the product, and in each crate of the testbed.
pub(super) fn unique_types(files: &[SourceFile]) -> Vec<Violation> {
    let mut defined: BTreeMap<String, Vec<Violation>> = BTreeMap::new();
    for file in files
        .iter()
        .filter(|file| file.is_rust() && !file.is_generated && file.path.contains("/src/"))
    {
        let scope = match file.path.split('/').next() {
            Some("crates") => String::new(),
            Some("testbed") => format!("{}/", file.folder()),
            _ => continue,
        };
        for (line, text) in file.production(&file.code) {
            for found in TYPE.captures_iter(text) {
                let (Some(visibility), name) = (found.get(1), &found[2]) else {
                    continue;
                };
                if LOCAL.contains(&name) && visibility.as_str().contains("super") {
                    continue;
                }
                let key = match name {
                    _ if ONCE_PER_CRATE.contains(&name) => format!("{}/{name}", file.folder()),
                    _ if ONCE_PER_MODULE.contains(&name) => format!("{}/{name}", module(file)),
                    _ => format!("{scope}{name}"),
                };
                let mut violation =
                    Violation::new(file, line, format!("{name} is defined elsewhere too: name what it is"));
                violation.key.clone_from(&key);
                defined.entry(key).or_default().push(violation);
            }
        }
    }
    let twice = defined.into_values().filter(|all| all.len() > 1);
    twice.flatten().collect()
}

/// The first module of the crate that a file is in: a pipeline has one of its own.
fn module(file: &SourceFile) -> &str {
    let start = file.path.find("/src/").map_or(0, |at| at + 5);
    let end = file.path[start..].find(['/', '.']);
    end.map_or(&file.path, |end| &file.path[..start + end])
}

/// Names of types and modules that only their author understands.
pub(super) fn banned_names(files: &[SourceFile]) -> Vec<Violation> {
    let mut found = Vec::new();
    let ours = |file: &&SourceFile| file.is_rust() && file.path.contains("/src/") && !file.path.starts_with("xtask/");
    for file in files.iter().filter(ours) {
        let inside = file.path.split("/src/").nth(1).unwrap_or_default();
        let modules = inside.trim_end_matches(".rs").split('/');
        for module in modules.filter(|name| MODULES.split_whitespace().any(|it| it == *name)) {
            found.push(Violation::new(
                file,
                1,
                format!("rename the module {module}: it says nothing to a stranger"),
            ));
        }
        for (line, text) in file.production(&file.code) {
            let types = TYPE.captures_iter(text).filter_map(|it| it.get(2));
            let banned = types.filter(|name| TYPES.split_whitespace().any(|it| it == name.as_str()));
            found.extend(banned.map(|name| {
                let todo = format!("rename the type {}: a type is a noun of the domain", name.as_str());
                Violation::new(file, line, todo)
            }));
        }
    }
    found
}

pub(super) fn as_str(files: &[SourceFile]) -> Vec<Violation> {
    let word = regex(r"\bfn (word)\b");
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let lines = matches(file, &file.code, &word).into_iter();
        found.extend(lines.map(|(line, _)| Violation::new(file, line, "name the function as_str")));
    }
    found
}

/// A name that is put together is found by no search.
pub(super) fn metric_names(files: &[SourceFile]) -> Vec<Violation> {
    let registered = regex(r#"\.register(?:_with_unit)?\(\s*"([a-z_]+)""#);
    let prefixed = regex(r"\.(sub_registry_with_prefix)\(");
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.is_product()) {
        let names = matches(file, &file.uncommented, &registered).into_iter();
        let parts = names.filter(|(_, name)| !PREFIXES.iter().any(|prefix| name.starts_with(prefix)));
        let prefixes = matches(file, &file.code, &prefixed);
        found.extend(parts.chain(prefixes).map(|(line, name)| {
            Violation::new(
                file,
                line,
                format!("{name}: write the whole name of the metric in one literal"),
            )
        }));
    }
    found
}
