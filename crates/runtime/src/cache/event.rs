//! What a cache tells its listeners, after its own state has changed.

use std::fmt;
use std::sync::Arc;

use crate::key::ObjectKey;
use crate::view::View;

/// A change of the watched state.
pub enum CacheEvent<T> {
    /// An object that was not there.
    Added {
        /// As it is now.
        new: Arc<T>,
        /// It was there when the watch began: nothing is known to have happened to it.
        initial: bool,
        /// The field manager of this process that created it, if nobody else touched it since.
        own: Option<Arc<str>>,
    },
    /// An object that was there has another version.
    Changed {
        /// As the watch showed it before.
        old: Arc<T>,
        /// As it is now.
        new: Arc<T>,
        /// The field manager of this process that made all of the change, if one did.
        own: Option<Arc<str>>,
    },
    /// An object is gone.
    Deleted {
        /// As the watch showed it last.
        old: Arc<T>,
    },
    /// An object changed into something the view cannot hold, or went away in that state.
    Unreadable {
        /// Which one.
        key: ObjectKey,
        /// What does not fit, without any value of the object.
        error: String,
        /// As it was when it could still be read.
        last: Option<Arc<T>>,
    },
}

impl<T: View> CacheEvent<T> {
    /// The object it is about.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
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

impl<T> CacheEvent<T> {
    /// The states of the object it tells of: before and after a change.
    pub fn states(&self) -> impl Iterator<Item = &T> {
        let (first, second) = match self {
            Self::Added { new, .. } => (Some(new), None),
            Self::Changed { old, new, .. } => (Some(old), Some(new)),
            Self::Deleted { old } => (Some(old), None),
            Self::Unreadable { last, .. } => (last.as_ref(), None),
        };
        first.into_iter().chain(second).map(|object| &**object)
    }

    /// Whether it only says that the object was there when the watch began.
    #[must_use]
    pub fn is_initial(&self) -> bool {
        matches!(self, Self::Added { initial: true, .. })
    }

    /// Whether all of it was written by `manager`, which is of this process.
    #[must_use]
    pub fn is_written_by(&self, manager: &str) -> bool {
        match self {
            Self::Added { own, .. } | Self::Changed { own, .. } => own.as_deref() == Some(manager),
            Self::Deleted { .. } | Self::Unreadable { .. } => false,
        }
    }
}

impl<T> Clone for CacheEvent<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Added { new, initial, own } => Self::Added {
                new: new.clone(),
                initial: *initial,
                own: own.clone(),
            },
            Self::Changed { old, new, own } => Self::Changed {
                old: old.clone(),
                new: new.clone(),
                own: own.clone(),
            },
            Self::Deleted { old } => Self::Deleted { old: old.clone() },
            Self::Unreadable { key, error, last } => Self::Unreadable {
                key: key.clone(),
                error: error.clone(),
                last: last.clone(),
            },
        }
    }
}

/// The kind of event and the name of its object: what the object holds may be secret.
impl<T: View> fmt::Debug for CacheEvent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self {
            Self::Added { initial: true, .. } => "Found",
            Self::Added { own: Some(_), .. } => "AddedByUs",
            Self::Added { .. } => "Added",
            Self::Changed { own: Some(_), .. } => "ChangedByUs",
            Self::Changed { .. } => "Changed",
            Self::Deleted { .. } => "Deleted",
            Self::Unreadable { .. } => "Unreadable",
        };
        write!(f, "{word}({})", self.key())
    }
}
