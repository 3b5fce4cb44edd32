//! The checks of the repository itself: how files are kept, which names stay, which crate may depend on which.
#![forbid(unsafe_code)]

pub mod golden;
pub mod rules;
pub mod serde_names;
pub mod source;
pub mod tidy;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The text of a file of the repository, which must be there.
pub fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every literal of the product's sources, tests apart, that stands on one line.
pub fn quoted() -> BTreeSet<String> {
    let files = source::load(&root()).unwrap_or_else(|error| panic!("{error}"));
    let literal = regex::Regex::new(r#""([^"\\]*)""#).expect("it is fixed");
    let product = files.iter().filter(|file| file.is_product());
    let lines = product.flat_map(|file| file.production(&file.uncommented));
    lines
        .flat_map(|(_, line)| literal.captures_iter(line).map(|found| found[1].to_owned()))
        .collect()
}
