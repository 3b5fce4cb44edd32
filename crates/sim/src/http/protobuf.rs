//! Bodies in the protobuf encoding of Kubernetes, for the few small kinds that kubectl and helm make with
//! typed clients (`auth can-i`, `create namespace`, `create role`, the options of a deletion and so on).
//!
//! Reading only, and only the kinds of the table: bodies of any other kind are refused as a form
//! the box does not read. Answers are JSON, which these clients also accept.

use base64::Engine as _;
use bytes::Bytes;
use serde_json::{Map, Value, json};

/// Every body starts with it.
pub(super) const MAGIC: &[u8] = b"k8s\0";

#[derive(Clone, Copy)]
enum Kind {
    Text,
    /// A flag whose absence means something else than false.
    OptionalFlag,
    Number,
    /// A number whose absence means something else than zero.
    OptionalNumber,
    Message(&'static str),
    /// A map to text.
    Texts,
    /// A map to bytes, base64 in JSON.
    Blobs,
}

use Kind::{Blobs, Message, Number, OptionalFlag, OptionalNumber, Text, Texts};

/// Number, name, kind and whether it repeats.
type Field = (u64, &'static str, Kind, bool);

/// The kinds that are read, and the messages within them.
const MESSAGES: &[(&str, &[Field])] = &[
    ("Unknown", &[(1, "typeMeta", Message("TypeMeta"), false)]),
    (
        "TypeMeta",
        &[(1, "apiVersion", Text, false), (2, "kind", Text, false)],
    ),
    (
        "ObjectMeta",
        &[
            (1, "name", Text, false),
            (2, "generateName", Text, false),
            (3, "namespace", Text, false),
            (5, "uid", Text, false),
            (6, "resourceVersion", Text, false),
            (7, "generation", Number, false),
            (11, "labels", Texts, false),
            (12, "annotations", Texts, false),
            (13, "ownerReferences", Message("OwnerReference"), true),
            (14, "finalizers", Text, true),
        ],
    ),
    (
        "OwnerReference",
        &[
            (1, "kind", Text, false),
            (3, "name", Text, false),
            (4, "uid", Text, false),
            (5, "apiVersion", Text, false),
            (6, "controller", OptionalFlag, false),
            (7, "blockOwnerDeletion", OptionalFlag, false),
        ],
    ),
    (
        "Namespace",
        &[METADATA, (2, "spec", Message("NamespaceSpec"), false)],
    ),
    ("NamespaceSpec", &[(1, "finalizers", Text, true)]),
    (
        "ConfigMap",
        &[
            METADATA,
            (2, "data", Texts, false),
            (3, "binaryData", Blobs, false),
            (4, "immutable", OptionalFlag, false),
        ],
    ),
    (
        "Secret",
        &[
            METADATA,
            (2, "data", Blobs, false),
            (3, "type", Text, false),
            (4, "stringData", Texts, false),
            (5, "immutable", OptionalFlag, false),
        ],
    ),
    (
        "ServiceAccount",
        &[
            METADATA,
            (4, "automountServiceAccountToken", OptionalFlag, false),
        ],
    ),
    (
        "Role",
        &[METADATA, (2, "rules", Message("PolicyRule"), true)],
    ),
    (
        "ClusterRole",
        &[METADATA, (2, "rules", Message("PolicyRule"), true)],
    ),
    (
        "PolicyRule",
        &[
            (1, "verbs", Text, true),
            (2, "apiGroups", Text, true),
            (3, "resources", Text, true),
            (4, "resourceNames", Text, true),
            (5, "nonResourceURLs", Text, true),
        ],
    ),
    ("RoleBinding", BINDING),
    ("ClusterRoleBinding", BINDING),
    (
        "Subject",
        &[
            (1, "kind", Text, false),
            (2, "apiGroup", Text, false),
            (3, "name", Text, false),
            (4, "namespace", Text, false),
        ],
    ),
    (
        "RoleRef",
        &[
            (1, "apiGroup", Text, false),
            (2, "kind", Text, false),
            (3, "name", Text, false),
        ],
    ),
    ("SelfSubjectReview", &[METADATA]),
    (
        "SelfSubjectRulesReview",
        &[METADATA, (2, "spec", Message("RulesSpec"), false)],
    ),
    ("RulesSpec", &[(1, "namespace", Text, false)]),
    ("SelfSubjectAccessReview", ACCESS),
    ("SubjectAccessReview", ACCESS),
    ("LocalSubjectAccessReview", ACCESS),
    (
        "AccessSpec",
        &[
            (
                1,
                "resourceAttributes",
                Message("ResourceAttributes"),
                false,
            ),
            (
                2,
                "nonResourceAttributes",
                Message("NonResourceAttributes"),
                false,
            ),
            (3, "user", Text, false),
            (4, "groups", Text, true),
            (6, "uid", Text, false),
        ],
    ),
    (
        "ResourceAttributes",
        &[
            (1, "namespace", Text, false),
            (2, "verb", Text, false),
            (3, "group", Text, false),
            (4, "version", Text, false),
            (5, "resource", Text, false),
            (6, "subresource", Text, false),
            (7, "name", Text, false),
        ],
    ),
    (
        "NonResourceAttributes",
        &[(1, "path", Text, false), (2, "verb", Text, false)],
    ),
    (
        "DeleteOptions",
        &[
            (1, "gracePeriodSeconds", OptionalNumber, false),
            (2, "preconditions", Message("Preconditions"), false),
            (3, "orphanDependents", OptionalFlag, false),
            (4, "propagationPolicy", Text, false),
            (5, "dryRun", Text, true),
        ],
    ),
    (
        "Preconditions",
        &[(1, "uid", Text, false), (2, "resourceVersion", Text, false)],
    ),
    (
        "TokenReview",
        &[METADATA, (2, "spec", Message("TokenSpec"), false)],
    ),
    (
        "TokenSpec",
        &[(1, "token", Text, false), (2, "audiences", Text, true)],
    ),
];

const METADATA: Field = (1, "metadata", Message("ObjectMeta"), false);
const ACCESS: &[Field] = &[METADATA, (2, "spec", Message("AccessSpec"), false)];
const BINDING: &[Field] = &[
    METADATA,
    (2, "subjects", Message("Subject"), true),
    (3, "roleRef", Message("RoleRef"), false),
];

/// A protobuf body as JSON; `None` for one that is not of a kind of the table.
pub(super) fn to_json(raw: &[u8]) -> Option<Bytes> {
    let envelope = raw.strip_prefix(MAGIC)?;
    let meta = message("Unknown", envelope)?.get("typeMeta")?.clone();
    let kind = meta.get("kind")?.as_str()?;
    let (name, _) = MESSAGES.iter().find(|(name, _)| *name == kind)?;
    let content = fields(envelope)?
        .into_iter()
        .find_map(|(number, wire)| match wire {
            Wire::Bytes(bytes) if number == 2 => Some(bytes),
            _ => None,
        });
    // Options that say nothing are written as nothing.
    let mut object = message(name, content.unwrap_or_default())?;
    object.insert("kind".into(), kind.into());
    object.insert("apiVersion".into(), meta.get("apiVersion")?.clone());
    Some(Value::Object(object).to_string().into())
}

/// What stands on the wire under a field number.
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn message(name: &str, bytes: &[u8]) -> Option<Map<String, Value>> {
    let (_, known) = MESSAGES.iter().find(|(message, _)| *message == name)?;
    let mut object = Map::new();
    for (number, wire) in fields(bytes)? {
        let Some((_, name, kind, repeats)) = known.iter().find(|(n, ..)| *n == number) else {
            continue;
        };
        match (value(*kind, wire)?, *repeats) {
            (Value::Object(entry), false) if matches!(kind, Texts | Blobs) => {
                let map = object.entry(*name).or_insert_with(|| json!({}));
                map.as_object_mut()?.extend(entry);
            }
            (value, true) => object
                .entry(*name)
                .or_insert_with(|| json!([]))
                .as_array_mut()?
                .push(value),
            // Encoders write every field of a Go struct; the empty ones mean nothing.
            (value, false) if is_empty(&value) && !matches!(kind, OptionalNumber) => {}
            (value, false) => {
                object.insert((*name).to_owned(), value);
            }
        }
    }
    Some(object)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

fn value(kind: Kind, wire: Wire<'_>) -> Option<Value> {
    Some(match (kind, wire) {
        (Text, Wire::Bytes(bytes)) => std::str::from_utf8(bytes).ok()?.into(),
        (OptionalFlag, Wire::Number(number)) => (number != 0).into(),
        (Number | OptionalNumber, Wire::Number(number)) => number.cast_signed().into(),
        (Message(name), Wire::Bytes(bytes)) => Value::Object(message(name, bytes)?),
        (Texts | Blobs, Wire::Bytes(bytes)) => {
            let mut pair: [&[u8]; 2] = [b"", b""];
            for (number, wire) in fields(bytes)? {
                if let (1 | 2, Wire::Bytes(part)) = (number, wire) {
                    pair[usize::from(number == 2)] = part;
                }
            }
            let key = std::str::from_utf8(pair[0]).ok()?;
            let text = match kind {
                Blobs => base64::engine::general_purpose::STANDARD.encode(pair[1]),
                _ => std::str::from_utf8(pair[1]).ok()?.to_owned(),
            };
            json!({ key: text })
        }
        _ => return None,
    })
}

/// The fields of a message in order; `None` where the bytes are not one.
fn fields(mut bytes: &[u8]) -> Option<Vec<(u64, Wire<'_>)>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let wire = match tag & 7 {
            0 => Wire::Number(varint(&mut bytes)?),
            1 => Wire::Bytes(take(&mut bytes, 8)?),
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).ok()?;
                Wire::Bytes(take(&mut bytes, length)?)
            }
            5 => Wire::Bytes(take(&mut bytes, 4)?),
            _ => return None,
        };
        found.push((tag >> 3, wire));
    }
    Some(found)
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (head, tail) = bytes.split_at_checked(length)?;
    *bytes = tail;
    Some(head)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)?[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        let length = u8::try_from(content.len()).expect("a short field");
        [&[number << 3 | 2, length], content].concat()
    }

    fn body(kind: &str, content: &[u8]) -> Vec<u8> {
        let meta = [field(1, b"v1"), field(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), field(1, &meta), field(2, content)].concat()
    }

    #[test]
    fn a_small_kind_is_read() {
        let metadata = field(1, &[field(1, b"a"), field(3, b"")].concat());
        let entry = |key: &[u8], value: &[u8]| field(2, &[field(1, key), field(2, value)].concat());
        let map = [metadata, entry(b"x", b"1"), entry(b"y", b"2")].concat();
        let json = to_json(&body("ConfigMap", &map)).expect("read");
        let object: Value = serde_json::from_slice(&json).expect("JSON");
        assert_eq!(
            object,
            json!({
                "kind": "ConfigMap",
                "apiVersion": "v1",
                "metadata": { "name": "a" },
                "data": { "x": "1", "y": "2" },
            })
        );
    }

    #[test]
    fn options_of_a_deletion_are_read_and_a_zero_among_them_stays() {
        let preconditions = field(2, &field(1, b"u-1"));
        let options = [&[1 << 3, 0][..], &preconditions, &field(4, b"Background")].concat();
        let json = to_json(&body("DeleteOptions", &options)).expect("read");
        let object: Value = serde_json::from_slice(&json).expect("JSON");
        assert_eq!(
            object,
            json!({
                "kind": "DeleteOptions",
                "apiVersion": "v1",
                "gracePeriodSeconds": 0,
                "preconditions": { "uid": "u-1" },
                "propagationPolicy": "Background",
            })
        );
    }

    #[test]
    fn other_kinds_and_noise_are_not() {
        assert_eq!(to_json(&body("Pod", b"")), None);
        assert_eq!(to_json(b"k8s\0\xff\xff\xff"), None);
        assert_eq!(to_json(b"{}"), None);
    }
}
