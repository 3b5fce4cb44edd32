//! What the real server publishes about the built-in kinds, as vendored text: OpenAPI v3 and v2,
//! and discovery.
//!
//! Nothing is read here beyond unpacking; `http` cuts and serves it.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::LazyLock;

use flate2::read::GzDecoder;
use serde_json::Value;

static DOCUMENTS: LazyLock<String> = LazyLock::new(|| unpack(include_bytes!("data/documents.json.gz")));
static COMPONENTS: LazyLock<String> = LazyLock::new(|| unpack(include_bytes!("data/components.json.gz")));
static SWAGGER: LazyLock<String> = LazyLock::new(|| unpack(include_bytes!("data/swagger.json.gz")));
static INDEX: LazyLock<BTreeMap<String, String>> =
    LazyLock::new(|| serde_json::from_str(include_str!("data/index.json")).expect("vendored data is valid"));
static DISCOVERY: LazyLock<Vec<Value>> =
    LazyLock::new(|| serde_json::from_str(include_str!("data/discovery.json")).expect("vendored data is valid"));

fn unpack(packed: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(packed)
        .read_to_string(&mut text)
        .expect("vendored data is valid");
    text
}

/// The documents of OpenAPI v3 by path, each as `shared`, `own` and `document`.
#[must_use]
pub fn documents() -> &'static str {
    &DOCUMENTS
}

/// The schemas the documents share, by name.
#[must_use]
pub fn components() -> &'static str {
    &COMPONENTS
}

/// The document of OpenAPI v2.
#[must_use]
pub fn swagger() -> &'static str {
    &SWAGGER
}

/// The hash of each document of OpenAPI v3, by path.
#[must_use]
pub fn index() -> &'static BTreeMap<String, String> {
    &INDEX
}

/// The resource list of each built-in group version, in discovery order.
#[must_use]
pub fn discovery() -> &'static [Value] {
    &DISCOVERY
}
