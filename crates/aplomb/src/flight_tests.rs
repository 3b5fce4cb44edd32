//! Reads that are shared, in virtual time.
