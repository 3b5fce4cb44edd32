//! Scripts as data: what a person types, one line a step, read from `testbed/conformance/kubectl`.
//!
//! A line begins with what is expected of it; `README.md` of that folder is the whole grammar. Nothing
//! here runs anything.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

/// One file: a person at work, in a directory and a namespace of their own.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// The file's name without `.script`; the namespace is called so, too.
    pub name: String,
    /// Looks at the whole cluster, so nobody else may work at the same time.
    pub alone: bool,
    /// Left out of the quick run.
    pub slow: bool,
    /// Files the steps find in their directory.
    pub files: BTreeMap<String, String>,
    /// In order.
    pub steps: Vec<Step>,
}

/// One step and where it stands.
#[derive(Clone, Debug)]
pub struct Step {
    /// The line's number in its file.
    pub line: usize,
    /// What to do.
    pub action: Action,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// `$`, `!` and `?`: a shell command, and what is expected of it.
    Run(Expect, String),
    /// `%`: repeats a command, silently, until it succeeds.
    Until(String),
    /// `&`: starts a command that goes on.
    Begin(String),
    /// `<`: waits for more lines of it.
    Lines(usize),
    /// `.`: ends it; what it printed is compared.
    End,
}

/// What is expected of a command besides being equal on both servers.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub enum Expect {
    /// Exit code 0.
    Success,
    /// Any other exit code.
    Failure,
    /// Exit code 0; the output differs by nature and is not compared.
    SuccessUnseen,
}

/// Reads every script of a folder, or those that are named.
///
/// # Errors
/// When a file cannot be read or understood, or a name is not there.
pub fn read_all(folder: &Path, names: &[String]) -> Result<Vec<Script>> {
    let mut scripts = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "script") {
            continue;
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        if names.is_empty() || names.iter().any(|wanted| *wanted == name) {
            let text = fs::read_to_string(&path)?;
            scripts.push(parse(&name, &text).with_context(|| path.display().to_string())?);
        }
    }
    scripts.sort_by(|a, b| a.name.cmp(&b.name));
    for name in names {
        ensure!(
            scripts.iter().any(|script| script.name == *name),
            "no script is called {name}"
        );
    }
    Ok(scripts)
}

fn parse(name: &str, text: &str) -> Result<Script> {
    let mut script = Script {
        name: name.to_owned(),
        ..Script::default()
    };
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let at = at + 1;
        if let Some(file) = line.strip_prefix("== ") {
            let body: Vec<_> = lines
                .by_ref()
                .map(|(_, line)| line)
                .take_while(|line| *line != "==")
                .collect();
            script.files.insert(file.to_owned(), body.join("\n") + "\n");
            continue;
        }
        match line.split_once(' ').unwrap_or((line, "")) {
            ("", _) | ("#", _) => {}
            ("alone", "") => script.alone = true,
            ("slow", "") => script.slow = true,
            (">", more) => extend(&mut script.steps, more).with_context(|| at.to_string())?,
            (sign, rest) => {
                let action = action(sign, rest).with_context(|| format!("line {at}"))?;
                script.steps.push(Step { line: at, action });
            }
        }
    }
    Ok(script)
}

fn action(sign: &str, rest: &str) -> Result<Action> {
    let command = rest.to_owned();
    Ok(match sign {
        "$" => Action::Run(Expect::Success, command),
        "!" => Action::Run(Expect::Failure, command),
        "?" => Action::Run(Expect::SuccessUnseen, command),
        "%" => Action::Until(command),
        "&" => Action::Begin(command),
        "<" => Action::Lines(rest.parse().context("`<` takes a number of lines")?),
        "." => Action::End,
        other => bail!("a line cannot begin with `{other}`"),
    })
}

/// `>` goes on with the command above it, as a here-document does.
fn extend(steps: &mut [Step], more: &str) -> Result<()> {
    let Some(Action::Run(_, command)) = steps.last_mut().map(|step| &mut step.action) else {
        bail!("`>` has no command above it");
    };
    command.push('\n');
    command.push_str(more);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_has_files_and_steps() {
        let text = "alone\n# why\n== a.yaml\nkind: A\n==\n$ cat <<.\n> x\n> .\n! false\n< 3\n.\n";
        let script = parse("one", text).expect("it is well formed");
        assert!(script.alone && !script.slow);
        assert_eq!(script.files["a.yaml"], "kind: A\n");
        let actions: Vec<_> = script.steps.into_iter().map(|step| step.action).collect();
        assert_eq!(
            actions,
            [
                Action::Run(Expect::Success, "cat <<.\nx\n.".into()),
                Action::Run(Expect::Failure, "false".into()),
                Action::Lines(3),
                Action::End,
            ]
        );
    }

    #[test]
    fn an_unknown_sign_is_an_error() {
        assert!(parse("one", "kubectl get pods\n").is_err());
    }
}
