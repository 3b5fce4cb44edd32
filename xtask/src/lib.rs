//! Rules of the repository itself, as tests: who may depend on whom, and how files are kept.
//!
//! The rules are in `tests/`; nothing else belongs here.
#![forbid(unsafe_code)]
