//! Events that a cache sends to its listeners, after its own state has changed.

use std::fmt;
use std::sync::Arc;

use crate::key::ObjectKey;
use crate::view::View;

/// A change of the watched state.
pub enum CacheEvent<T> {
    /// A new object.
    Added {
        /// Its current state.
        new: Arc<T>,
        /// Whether it existed when the watch began; then it may be unchanged.
        initial: bool,
        /// The field manager of this process that created it, if no other writer touched it since.
        own: Option<Arc<str>>,
    },
    /// An existing object has a new version.
    Changed {
        /// Its last watched state.
        old: Arc<T>,
        /// Its current state.
        new: Arc<T>,
        /// The field manager of this process that made the whole change, if one did.
        own: Option<Arc<str>>,
    },
    /// An object was deleted.
    Deleted {
        /// Its last watched state.
        old: Arc<T>,
    },
    /// An object changed into something that the view cannot represent, or was deleted in that state.
    Unreadable {
        /// The object.
        key: ObjectKey,
        /// The mismatch, without any value of the object.
        error: String,
        /// Its last readable state.
        last: Option<Arc<T>>,
    },
}

impl<T: View> CacheEvent<T> {
    /// The key of the object.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        match self {
            Self::Added { new: object, .. } | Self::Changed { new: object, .. } | Self::Deleted { old: object } => {
                object.meta().key()
            }
            Self::Unreadable { key, .. } => key.clone(),
        }
    }

    /// The newest state of the object; for a deletion, its last state.
    #[must_use]
    pub fn object(&self) -> Option<&Arc<T>> {
        match self {
            Self::Added { new: object, .. } | Self::Changed { new: object, .. } | Self::Deleted { old: object } => {
                Some(object)
            }
            Self::Unreadable { .. } => None,
        }
    }
}

impl<T> CacheEvent<T> {
    /// The states of the object before and after the change.
    pub fn states(&self) -> impl Iterator<Item = &T> {
        let (first, second) = match self {
            Self::Added { new, .. } => (Some(new), None),
            Self::Changed { old, new, .. } => (Some(old), Some(new)),
            Self::Deleted { old } => (Some(old), None),
            Self::Unreadable { last, .. } => (last.as_ref(), None),
        };
        first.into_iter().chain(second).map(|object| &**object)
    }

    /// Whether it only reports that the object existed when the watch began.
    #[must_use]
    pub fn is_initial(&self) -> bool {
        matches!(self, Self::Added { initial: true, .. })
    }

    /// Whether the whole change was written by `manager`, a manager of this process.
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

/// The kind of event and the name of its object. Contents are left out because they may be secret.
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
