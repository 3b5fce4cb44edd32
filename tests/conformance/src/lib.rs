//! aplomb-conformance
