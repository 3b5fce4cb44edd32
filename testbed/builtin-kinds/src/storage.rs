//! Storage: volumes, their classes, and what CSI drivers say about themselves.

pub(super) mod classes;
pub(super) mod csi;
pub(super) mod volumes;
