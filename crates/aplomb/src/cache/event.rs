//! What a cache tells its listeners, after its own state has changed.

use std::fmt;
use std::sync::Arc;

use crate::key::Key;
use crate::view::View;

/// A change of the watched state.
pub enum Event<T> {
    /// An object that was not there.
    Added {
        /// As it is now.
        new: Arc<T>,
        /// It was there when the watch began: nothing is known to have happened to it.
        initial: bool,
        /// This process created it, and nobody else is known to have touched it since.
        own: bool,
    },
    /// An object that was there has another version.
    Changed {
        /// As the watch showed it before.
        old: Arc<T>,
        /// As it is now.
        new: Arc<T>,
        /// All of the change is this process's own write.
        own: bool,
    },
    /// An object is gone.
    Deleted {
        /// As the watch showed it last.
        old: Arc<T>,
    },
    /// An object changed into something the view cannot hold, or went away in that state.
    Unreadable {
        /// Which one.
        key: Key,
        /// What does not fit, without any value of the object.
        error: String,
    },
}

impl<T: View> Event<T> {
    /// The object it is about.
    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Self::Added { new: object, .. }
            | Self::Changed { new: object, .. }
            | Self::Deleted { old: object } => object.meta().key(),
            Self::Unreadable { key, .. } => key.clone(),
        }
    }

    /// The newest state there is of the object, which for a deletion is its last.
    #[must_use]
    pub fn object(&self) -> Option<&Arc<T>> {
        match self {
            Self::Added { new: object, .. }
            | Self::Changed { new: object, .. }
            | Self::Deleted { old: object } => Some(object),
            Self::Unreadable { .. } => None,
        }
    }
}

impl<T> Clone for Event<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Added { new, initial, own } => Self::Added {
                new: new.clone(),
                initial: *initial,
                own: *own,
            },
            Self::Changed { old, new, own } => Self::Changed {
                old: old.clone(),
                new: new.clone(),
                own: *own,
            },
            Self::Deleted { old } => Self::Deleted { old: old.clone() },
            Self::Unreadable { key, error } => Self::Unreadable {
                key: key.clone(),
                error: error.clone(),
            },
        }
    }
}

/// The kind of event and the name of its object: what the object holds may be secret.
impl<T: View> fmt::Debug for Event<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self {
            Self::Added { initial: true, .. } => "Found",
            Self::Added { own: true, .. } => "AddedByUs",
            Self::Added { .. } => "Added",
            Self::Changed { own: true, .. } => "ChangedByUs",
            Self::Changed { .. } => "Changed",
            Self::Deleted { .. } => "Deleted",
            Self::Unreadable { .. } => "Unreadable",
        };
        write!(f, "{word}({})", self.key())
    }
}
