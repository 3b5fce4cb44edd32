//! `aplomb completion`: scripts for shells, the script through which kubectl completes `kubectl aplomb`, and the
//! hidden command that this script calls.

use anyhow::{Result, bail};
use aplomb_console::table::all_resources;
use clap::{Command, CommandFactory};

use crate::args::{Cli, CompletionArgs};
use crate::output::OutputStream;

/// kubectl runs an executable named kubectl_complete-aplomb with the words so far.
const SHELL_SCRIPT: &str = "\
#!/bin/sh
# Completes `kubectl aplomb`. Save it as kubectl_complete-aplomb in a directory of your PATH and make it executable:
#   aplomb completion --kubectl > ~/.local/bin/kubectl_complete-aplomb && chmod +x ~/.local/bin/kubectl_complete-aplomb
exec kubectl-aplomb __complete -- \"$@\"
";
/// Completion directive: do not offer files.
const NO_FILES_DIRECTIVE: &str = ":4";

pub(crate) fn run(args: &CompletionArgs, out: &OutputStream) -> Result<()> {
    match (args.kubectl, args.shell) {
        (true, _) => out.print(SHELL_SCRIPT),
        (false, Some(shell)) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "aplomb", &mut script);
            out.print(&String::from_utf8_lossy(&script))
        }
        (false, None) => bail!("set a shell, such as `aplomb completion bash`, or --kubectl"),
    }
}

/// Prints the possible completions of the last word.
pub(crate) fn print_candidates(words: &[String], out: &OutputStream) -> Result<()> {
    let mut lines = candidates(words);
    lines.push(NO_FILES_DIRECTIVE.to_owned());
    out.print(&(lines.join("\n") + "\n"))
}

fn candidates(words: &[String]) -> Vec<String> {
    let Some((last, before)) = words.split_last() else {
        return Vec::new();
    };
    let mut command = Cli::command();
    let mut path = Vec::new();
    for word in before {
        if let Some(below) = command.find_subcommand(word).cloned() {
            path.push(word.as_str());
            command = below;
        }
    }
    let mut found = match last.starts_with('-') {
        true => flags(&command),
        false => argument_values(&command, &path),
    };
    found.retain(|candidate| candidate.starts_with(last.as_str()));
    found.sort();
    found
}

fn flags(command: &Command) -> Vec<String> {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let names = shown.filter_map(|arg| arg.get_long());
    names.map(|name| format!("--{name}")).collect()
}

/// Subcommands, the values of an argument, and kinds where an object is expected.
fn argument_values(command: &Command, path: &[&str]) -> Vec<String> {
    let below = command.get_subcommands().filter(|it| !it.is_hide_set());
    let mut all: Vec<String> = below.map(|it| it.get_name().to_owned()).collect();
    for arg in command.get_positionals() {
        let values = arg.get_possible_values();
        all.extend(values.iter().map(|value| value.get_name().to_owned()));
    }
    if let ["get" | "trace"] = path {
        all.extend(all_resources().into_iter().map(|it| it.plural));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete_words(words: &[&str]) -> Vec<String> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        candidates(&words)
    }

    #[test]
    fn commands_flags_and_kinds_are_offered() {
        assert_eq!(complete_words(&["st"]), ["status"]);
        assert!(complete_words(&[""]).contains(&"get".to_owned()));
        assert!(!complete_words(&[""]).contains(&"__complete".to_owned()));
        assert_eq!(complete_words(&["get", "--sel"]), ["--selector"]);
        assert_eq!(complete_words(&["get", "httpp"]), ["httpproxies"]);
        assert_eq!(complete_words(&["run", "eg"]), ["egress"]);
        assert_eq!(complete_words(&["sim", "h"]), ["hetzner"]);
        assert!(complete_words(&[]).is_empty());
    }
}
