//! aplomb-controlplane
