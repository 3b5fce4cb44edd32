//! Rules of the box that can be broken on purpose, so that the suites are shown to see.
//!
//! Only builds with the feature `break-rules` read `BOX_BREAK`; in every other build the checks
//! are constants. Nothing here may change an unbroken server.

/// A rule that can be broken by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A write that changes nothing takes no revision and makes no event.
    NoopWrite,
    /// A stale version is refused.
    Conflict,
    /// Only a change of the specification moves `metadata.generation`.
    Generation,
    /// Removing the last finalizer is one DELETED event and nothing else.
    FinalizerEvent,
    /// An object that stops matching a selector is reported as DELETED.
    SelectorLeave,
    /// An applier that drops a field removes it.
    SsaPrune,
    /// The main path does not write `status`.
    StatusIsolation,
}

impl Rule {
    /// Every rule with its name in `BOX_BREAK`.
    pub const ALL: [(&'static str, Rule); 7] = [
        ("noop-write", Rule::NoopWrite),
        ("conflict", Rule::Conflict),
        ("generation", Rule::Generation),
        ("finalizer-event", Rule::FinalizerEvent),
        ("selector-leave", Rule::SelectorLeave),
        ("ssa-prune", Rule::SsaPrune),
        ("status-isolation", Rule::StatusIsolation),
    ];
}

/// The rules broken in one server: at most one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mutation {
    #[cfg(feature = "break-rules")]
    broken: Option<Rule>,
}

impl Mutation {
    /// What `BOX_BREAK` names; nothing in builds without the feature.
    #[cfg(feature = "break-rules")]
    #[must_use]
    pub fn from_env() -> Self {
        let name = std::env::var("BOX_BREAK").unwrap_or_default();
        let broken = Rule::ALL
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, rule)| *rule);
        Self { broken }
    }

    /// What `BOX_BREAK` names; nothing in builds without the feature.
    #[cfg(not(feature = "break-rules"))]
    #[must_use]
    pub fn from_env() -> Self {
        Self {}
    }

    /// Breaks one rule, for tests of the checks themselves.
    #[cfg(feature = "break-rules")]
    #[must_use]
    pub fn of(rule: Rule) -> Self {
        Self { broken: Some(rule) }
    }

    /// Whether `rule` is broken.
    #[cfg(feature = "break-rules")]
    #[must_use]
    pub fn is(self, rule: Rule) -> bool {
        self.broken == Some(rule)
    }

    /// Whether `rule` is broken.
    #[cfg(not(feature = "break-rules"))]
    #[must_use]
    pub fn is(self, _rule: Rule) -> bool {
        false
    }
}
