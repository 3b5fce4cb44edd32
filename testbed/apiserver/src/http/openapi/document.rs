//! One published document: its hash, and its bytes in each form they are asked for.
//!
//! Forms are made when first wanted and kept, since documents are large and rarely change.

use std::io::Write;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::proto::{self, Edition};
use super::swagger::{self, Addition};

/// How a document is turned into gnostic's message.
#[derive(Debug)]
pub(super) enum Form {
    /// From its JSON.
    V3,
    /// From what custom resources add to the vendored document of OpenAPI v2.
    Swagger(Vec<Arc<Addition>>),
}

/// A document as clients get it.
#[derive(Debug)]
pub(in crate::http) struct Document {
    form: Form,
    /// Names the content; not quoted.
    pub(in crate::http) hash: String,
    /// JSON text.
    pub(in crate::http) json: Bytes,
    proto: OnceLock<Bytes>,
    packed: OnceLock<Bytes>,
    packed_proto: OnceLock<Bytes>,
}

impl Document {
    pub(super) fn new(form: Form, hash: String, json: impl Into<Bytes>) -> Self {
        Self {
            form,
            hash,
            json: json.into(),
            proto: OnceLock::new(),
            packed: OnceLock::new(),
            packed_proto: OnceLock::new(),
        }
    }

    /// The document as gnostic's message.
    pub(in crate::http) fn proto(&self) -> Bytes {
        let encode = || match &self.form {
            Form::V3 => {
                let value = serde_json::from_slice(&self.json).unwrap_or_default();
                proto::document(Edition::V3, &value)
            }
            Form::Swagger(additions) => swagger::message(additions),
        };
        self.proto.get_or_init(|| encode().into()).clone()
    }

    /// One of the two forms, compressed.
    pub(in crate::http) fn packed(&self, as_proto: bool) -> Bytes {
        let (kept, bytes) = if as_proto {
            (&self.packed_proto, self.proto())
        } else {
            (&self.packed, self.json.clone())
        };
        kept.get_or_init(|| pack(&bytes)).clone()
    }
}

fn pack(bytes: &[u8]) -> Bytes {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory does not fail; an empty answer would be seen at once.
    let packed = packer.write_all(bytes).and_then(|()| packer.finish());
    packed.unwrap_or_default().into()
}
