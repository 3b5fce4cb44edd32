//! What a real control plane did in scripts, kept in a file: the box can be compared with it where
//! there is no Go to build one, and while one works on the box.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::script::{Action, Script};
use super::session::Outcome;

/// Outcomes by the name of the script.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Recording(BTreeMap<String, Vec<Outcome>>);

impl Recording {
    /// Reads one.
    ///
    /// # Errors
    /// When there is none in the file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read(path).with_context(|| path.display().to_string())?;
        Ok(serde_json::from_slice(&text)?)
    }

    /// Keeps what was done in a script, in place of what was kept before.
    pub fn keep(&mut self, script: &str, outcomes: Vec<Outcome>) {
        self.0.insert(script.to_owned(), outcomes);
    }

    /// Writes it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        fs::write(path, serde_json::to_vec(self)?).with_context(|| path.display().to_string())
    }

    /// What was done in a script.
    ///
    /// # Errors
    /// When the script has other commands now.
    pub fn of(&self, script: &Script) -> Result<Vec<Outcome>> {
        let outcomes = self.0.get(&script.name);
        let outcomes = outcomes.with_context(|| format!("{} is not recorded", script.name))?;
        let now = script.steps.iter().filter_map(|step| match &step.action {
            Action::Run(_, command) => Some(command.as_str()),
            _ => None,
        });
        for command in now {
            ensure!(
                outcomes.iter().any(|outcome| outcome.command == command),
                "{} was recorded without `{command}`",
                script.name
            );
        }
        Ok(outcomes.clone())
    }
}
