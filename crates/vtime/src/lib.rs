//! Virtual libc time and randomness, for tests only.
