//! The fields of a kind that a controller reads. Changes of other fields cause no run.
//!
//! A lens decides on each event separately and keeps no state. In doubt a change passes.

use std::fmt;
use std::sync::Arc;

use crate::cache::CacheEvent;
use crate::view::View;

/// The projection of a kind that a controller reads.
pub struct Predicate<T>(Arc<SameFn<T>>);

type SameFn<T> = dyn Fn(&T, &T) -> bool + Send + Sync;

/// The result of a lens for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PredicateResult {
    /// A field that is read changed, or may have.
    Pass,
    /// No field that is read changed.
    Unchanged,
    /// This process wrote the change.
    Own,
}

impl<T: View> Predicate<T> {
    /// Passes changes of the generation, which means of the spec. Kinds without a generation (Node, ConfigMap)
    /// pass all changes.
    #[must_use]
    pub fn generation_changed() -> Self {
        Self::unless_same(|old, new| {
            let (old, new) = (old.meta().generation, new.meta().generation);
            old.is_some() && old == new
        })
    }

    /// Passes changes of the value that `read` returns.
    #[must_use]
    pub fn changed_by<P: PartialEq>(read: impl Fn(&T) -> P + Send + Sync + 'static) -> Self {
        Self::unless_same(move |old, new| read(old) == read(new))
    }

    /// Passes events for which `same` returns false; unlike [`Self::changed_by`] it need not copy values.
    #[must_use]
    pub fn unless_same(same: impl Fn(&T, &T) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(same))
    }

    /// Passes all events.
    #[must_use]
    pub fn always() -> Self {
        Self::unless_same(|_, _| false)
    }

    /// The result for `event`. Deletions, and changes of `deletionTimestamp`, finalizers and
    /// owners pass any lens, unless `manager` made them: changes by one controller of a process must
    /// reach the others.
    #[must_use]
    pub fn evaluate(&self, event: &CacheEvent<T>, manager: &str) -> PredicateResult {
        match event {
            _ if event.is_written_by(manager) => PredicateResult::Own,
            CacheEvent::Changed { old, new, .. } if same_lifecycle(&**old, &**new) && (self.0)(old, new) => {
                PredicateResult::Unchanged
            }
            _ => PredicateResult::Pass,
        }
    }
}

fn same_lifecycle<T: View>(old: &T, new: &T) -> bool {
    let (old, new) = (old.meta(), new.meta());
    old.uid == new.uid && old.deleting == new.deleting && old.finalizers == new.finalizers && old.owners == new.owners
}

impl<K: kube::Resource<DynamicType = ()> + View> Predicate<K> {
    /// Passes changes of what users set: spec, labels and annotations.
    #[must_use]
    pub fn spec_or_metadata_changed() -> Self {
        Self::unless_same(|old, new| {
            let (old, new) = (kube::Resource::meta(old), kube::Resource::meta(new));
            old.generation.is_some()
                && old.generation == new.generation
                && old.labels == new.labels
                && old.annotations == new.annotations
        })
    }
}

impl<T> Clone for Predicate<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Predicate<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lens")
    }
}

#[cfg(test)]
mod tests;
