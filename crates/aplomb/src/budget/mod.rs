//! What may be spent on a target, by whom, and when.

/// A lane of a budget: an index into its table of lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(pub usize);
