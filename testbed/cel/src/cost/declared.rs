//! What is declared about the size of values.

use std::collections::BTreeMap;

/// No request is larger.
pub const MAX_REQUEST: u64 = 3 * 1024 * 1024;

/// The limits of a value that a caller declares.
#[derive(Debug, Default)]
pub struct Declared {
    /// The most characters, items or entries.
    pub most: u64,
    /// The fewest bytes of such a value as JSON.
    pub least_bytes: u64,
    /// Of items or values.
    pub element: Option<Box<Declared>>,
    /// Entries have keys.
    pub is_map: bool,
    /// Of the fields of an object, under their escaped names.
    pub fields: BTreeMap<String, Declared>,
}

impl Declared {
    /// How often such a value fits into a request.
    #[must_use]
    pub fn cardinality(&self) -> u64 {
        MAX_REQUEST / (self.least_bytes + 1)
    }
}
