//! Decisions, one by one and in sequences.
