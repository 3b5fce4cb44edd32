//! The decision, one world at a time.
