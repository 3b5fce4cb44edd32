//! The `aplomb` binary.
fn main() {}
