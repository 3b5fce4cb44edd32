//! A case: a name, what it needs, and what it does.

use anyhow::Result;
use futures::future::BoxFuture;

use crate::case_run::CaseRun;

/// What a case does on whichever server it is given.
pub type Run = for<'t> fn(&'t CaseRun) -> BoxFuture<'t, Result<()>>;

/// One case of the suite.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// `section/what-holds`.
    pub name: &'static str,
    /// What it does.
    pub run: Run,
    /// Needs the garbage collector and the namespace controller.
    pub controllers: bool,
    /// Takes more than half a minute; runs only when asked for.
    pub long: bool,
    /// Its transcript depends on timing; each server is held to the assertions alone.
    pub uncompared: bool,
    /// Does something to the whole server; runs after all others, by itself.
    pub alone: bool,
}

impl Case {
    /// A case that needs nothing special.
    #[must_use]
    pub const fn new(name: &'static str, run: Run) -> Self {
        Self {
            name,
            run,
            controllers: false,
            long: false,
            uncompared: false,
            alone: false,
        }
    }

    /// Runs where the controllers are.
    #[must_use]
    pub const fn with_controllers(mut self) -> Self {
        self.controllers = true;
        self
    }

    /// Runs only with `--long`.
    #[must_use]
    pub const fn long(mut self) -> Self {
        self.long = true;
        self
    }

    /// The order or number of answers is not determined.
    #[must_use]
    pub const fn uncompared(mut self) -> Self {
        self.uncompared = true;
        self
    }

    /// Runs when nothing else does.
    #[must_use]
    pub const fn alone(mut self) -> Self {
        self.alone = true;
        self
    }

    /// The namespace a trial of this case works in.
    #[must_use]
    pub fn namespace(&self) -> String {
        let mut name = self.name.replace('/', "-");
        name.truncate(60);
        name.trim_end_matches('-').to_owned()
    }
}
