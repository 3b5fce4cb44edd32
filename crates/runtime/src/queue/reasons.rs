//! The reasons of a run: each once, in the order they came, and limited in number.

use std::fmt;

use super::RunReason;

/// How many reasons are kept for one run. More are counted, not kept: the reconcile reads the
/// whole object anyway.
const MAX_REASONS: usize = 8;

/// The reasons of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunReasons {
    // Most runs have one reason, which needs no allocation.
    first: Option<RunReason>,
    overflow: Option<Box<More>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct More {
    reasons: Vec<RunReason>,
    omitted: u32,
}

impl RunReasons {
    /// The reasons, in the order they came.
    pub fn iter(&self) -> impl Iterator<Item = RunReason> + '_ {
        let more = self.overflow.iter().flat_map(|more| &more.reasons);
        self.first.iter().chain(more).copied()
    }

    /// Whether `reason` is among them.
    #[must_use]
    pub fn contains(&self, reason: RunReason) -> bool {
        self.iter().any(|known| known == reason)
    }

    /// The number of reasons.
    #[must_use]
    pub fn len(&self) -> usize {
        let more = self.overflow.as_ref().map_or(0, |more| more.reasons.len());
        usize::from(self.first.is_some()) + more
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// How many events were left out because the set was full.
    #[must_use]
    pub fn omitted(&self) -> u32 {
        self.overflow.as_ref().map_or(0, |more| more.omitted)
    }

    #[inline]
    pub(super) fn add(&mut self, reason: RunReason) {
        if self.first.is_none() {
            self.first = Some(reason);
            return;
        }
        if self.contains(reason) {
            return;
        }
        let more = self.overflow.get_or_insert_default();
        // `first` is one of the kept reasons.
        if more.reasons.len() + 1 < MAX_REASONS {
            more.reasons.push(reason);
        } else {
            more.omitted = more.omitted.saturating_add(1);
        }
    }
}

impl fmt::Display for RunReasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, reason) in self.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{reason}")?;
        }
        match self.omitted() {
            0 => Ok(()),
            more => write!(f, ",+{more}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_kept_once_and_in_order() {
        let mut reasons = RunReasons::default();
        for reason in [RunReason::Changed, RunReason::Input("Pod"), RunReason::Changed] {
            reasons.add(reason);
        }
        assert_eq!(reasons.to_string(), "Changed,Input(Pod)");
    }

    #[test]
    fn reasons_past_the_eighth_are_counted() {
        let kinds = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
        let mut reasons = RunReasons::default();
        for kind in kinds {
            reasons.add(RunReason::Input(kind));
        }
        assert_eq!((reasons.len(), reasons.omitted()), (8, 2));
        assert!(reasons.to_string().ends_with(",Input(h),+2"));
    }
}
