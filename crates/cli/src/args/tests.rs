//! The names of the command line are those that scripts rely on.

use std::collections::BTreeSet;
use std::path::Path;

use clap::{Arg, Command, CommandFactory};

use super::Cli;

/// One line for each command, flag and argument, with its variable and its values.
fn names(command: &Command, path: &str, all: &mut BTreeSet<String>) {
    all.insert(path.to_owned());
    for alias in command.get_all_aliases() {
        all.insert(format!("{path} alias {alias}"));
    }
    for arg in command.get_arguments() {
        all.insert(format!("{path} {}", described(arg)));
    }
    for child in command.get_subcommands() {
        names(child, &format!("{path} {}", child.get_name()), all);
    }
}

fn described(arg: &Arg) -> String {
    let mut words = Vec::new();
    words.extend(arg.get_long().map(|long| format!("--{long}")));
    words.extend(arg.get_short().map(|short| format!("-{short}")));
    words.extend(
        arg.get_all_aliases()
            .into_iter()
            .flatten()
            .map(|alias| format!("--{alias}")),
    );
    if arg.is_positional() {
        words.push(arg.get_id().to_string());
    }
    words.extend(arg.get_env().map(|env| env.to_string_lossy().into_owned()));
    let values = arg.get_possible_values().into_iter();
    words.extend(values.map(|value| format!("={}", value.get_name())));
    words.join(" ")
}

#[test]
fn the_command_line_is_as_it_was() {
    let mut command = Cli::command();
    command.build();
    let mut all = BTreeSet::new();
    names(&command, "aplomb", &mut all);
    all.extend(aplomb_demo::StoryName::ALL.map(|story| format!("story {story}")));
    let lines: String = all.iter().map(|line| format!("{line}\n")).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../xtask/golden/commands.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &lines).expect("written");
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    let golden: BTreeSet<String> = golden.lines().map(str::to_owned).collect();
    let gone: Vec<_> = golden.difference(&all).collect();
    let new: Vec<_> = all.difference(&golden).collect();
    assert!(
        gone.is_empty() && new.is_empty(),
        "commands changed that others rely on, gone: {gone:#?}, new: {new:#?}. If that is meant, say so in CHANGELOG.md \
         and run UPDATE_GOLDEN=1 cargo test -p aplomb-cli --bin aplomb"
    );
}
