//! Which key runs next. Pure and synchronous.

use std::fmt;

use crate::error::Class;

/// The lanes of the queue, most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// A person created the object, changed its spec or asked for its deletion.
    Edit,
    /// A child or another input changed.
    Input,
    /// Something that failed is due again.
    Retry,
    /// Nothing is known to have changed: a restart, a periodic look.
    Resync,
}

impl Lane {
    /// Every lane, most urgent first.
    pub const ALL: [Self; 4] = [Self::Edit, Self::Input, Self::Retry, Self::Resync];

    /// The word that metrics and logs use.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Edit => "edit",
            Self::Input => "input",
            Self::Retry => "retry",
            Self::Resync => "resync",
        }
    }
}

/// Why a key is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The object was created, or seen for the first time and not yet handled.
    Created,
    /// The part of the object its lens shows changed.
    Changed,
    /// Its deletion was asked for, or it is gone.
    Deleted,
    /// An object of this kind that maps to it changed.
    Input(&'static str),
    /// A failure of this class is due again.
    Retry(Class),
    /// The reconcile asked to look again.
    Recheck,
    /// A restart, a relist or the periodic look.
    Resync,
    /// The program asked for it.
    Requested,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Created => f.write_str("Created"),
            Self::Changed => f.write_str("Changed"),
            Self::Deleted => f.write_str("Deleted"),
            Self::Input(kind) => write!(f, "Input({kind})"),
            Self::Retry(class) => write!(f, "Retry({})", class.word()),
            Self::Recheck => f.write_str("Recheck"),
            Self::Resync => f.write_str("Resync"),
            Self::Requested => f.write_str("Requested"),
        }
    }
}
