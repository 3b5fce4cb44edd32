//! Round trips, the bytes of the server, and noise.

mod random;

use flate2::read::GzDecoder;
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use super::*;

/// What the server writes, in both ways.
#[derive(Deserialize)]
struct Sample {
    name: String,
    json: Value,
    protobuf: String,
}

impl Sample {
    fn bytes(&self) -> Vec<u8> {
        use base64::Engine as _;
        let engine = base64::engine::general_purpose::STANDARD;
        engine.decode(&self.protobuf).expect("base64")
    }
}

fn samples() -> Vec<Sample> {
    let packed = &include_bytes!("tests/data/golden.json.gz")[..];
    serde_json::from_reader(GzDecoder::new(packed)).expect("vendored samples are valid")
}

/// Without what JSON shows of a Go value that holds nothing, and without the kinds of a list's items,
/// which protobuf does not write.
fn bare(value: &Value, top: bool) -> Value {
    match value {
        Value::Array(items) => items.iter().map(|item| bare(item, false)).collect(),
        Value::Object(members) => members
            .iter()
            .filter(|(_, member)| !member.is_null() && **member != json!([]))
            .filter(|(key, member)| top || key.as_str() != "kind" || *member != "PartialObjectMetadata")
            .filter(|(_, member)| top || *member != "meta.k8s.io/v1")
            .map(|(key, member)| (key.clone(), bare(member, false)))
            .collect(),
        other => other.clone(),
    }
}

#[test]
fn what_the_server_writes_is_read_as_it_says_it_in_json() {
    for sample in samples().iter().filter(|sample| sample.json.is_object()) {
        let read = decode(&sample.bytes(), ("", "")).expect(&sample.name);
        assert_eq!(bare(&read, true), bare(&sample.json, true), "{}", sample.name);
    }
}

#[test]
fn json_is_written_with_the_bytes_of_the_server() {
    for sample in samples().iter().filter(|sample| sample.json.is_object()) {
        let written = encode(&sample.json).expect(&sample.name);
        assert!(written == sample.bytes(), "{}", sample.name);
    }
}

/// One field with bytes in it.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).expect("a short field");
    [&[number << 3 | 2, length], content].concat()
}

fn body(kind: &str, content: &[u8]) -> Vec<u8> {
    let meta = [field(1, b"v1"), field(2, kind.as_bytes())].concat();
    [MAGIC.to_vec(), field(1, &meta), field(2, content)].concat()
}

#[test]
fn options_of_a_deletion_are_read_and_a_zero_among_them_stays() {
    let preconditions = field(2, &field(1, b"u-1"));
    let options = [&[1 << 3, 0][..], &preconditions, &field(4, b"Background")].concat();
    assert_eq!(
        decode(&body("DeleteOptions", &options), ("", "")),
        Ok(json!({
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "gracePeriodSeconds": 0,
            "preconditions": { "uid": "u-1" },
            "propagationPolicy": "Background",
        }))
    );
}

#[test]
fn a_body_that_does_not_say_what_it_is_is_what_was_expected() {
    let object = [MAGIC, &field(2, &field(1, &field(1, b"a")))].concat();
    assert_eq!(
        decode(&object, ("v1", "ConfigMap")),
        Ok(json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}}))
    );
}

#[test]
fn events_are_framed_as_the_server_frames_them() {
    for sample in samples().iter().filter(|sample| sample.json.is_array()) {
        let given = sample.json.as_array().into_iter().flatten();
        let written: Vec<u8> = given
            .flat_map(|event| {
                let kind = event["type"].as_str().expect("a type");
                frame(kind, &event["object"]).expect("of the table")
            })
            .collect();
        assert!(written == sample.bytes(), "{}", sample.name);
        assert_eq!(events(&written).map(Value::Array), Ok(sample.json.clone()));
    }
}

/// Where two objects first differ: objects of chance are too long to be shown.
fn difference(one: &Value, other: &Value, path: &str) -> Option<String> {
    match (one, other) {
        (Value::Object(a), Value::Object(b)) if a.keys().eq(b.keys()) => a
            .iter()
            .find_map(|(key, member)| difference(member, &b[key], &format!("{path}.{key}"))),
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let pairs = a.iter().zip(b);
            pairs
                .zip(0..)
                .find_map(|((a, b), at)| difference(a, b, &format!("{path}[{at}]")))
        }
        _ => (one != other).then(|| format!("{path}: {one} is not {other}")),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    #[test]
    fn what_is_written_is_read_again(seed: u64) {
        let mut chance = random::Chance(fastrand::Rng::with_seed(seed));
        for (api_version, kind) in table::kinds() {
            let message = table::find(api_version, kind).expect("of the table");
            let mut object = chance.object(message, 0);
            object.insert("apiVersion".into(), api_version.into());
            object.insert("kind".into(), kind.into());
            let object = Value::Object(object);
            let bytes = encode(&object).expect("of the table");
            let read = decode(&bytes, ("", "")).expect("written here");
            prop_assert_eq!(difference(&read, &object, kind), None);
        }
    }

    #[test]
    fn noise_is_an_error_or_an_object_and_never_more(seed: u64) {
        let mut chance = fastrand::Rng::with_seed(seed);
        for sample in samples() {
            let mut bytes = sample.bytes();
            for _ in 0..chance.usize(1..8) {
                let at = chance.usize(..bytes.len());
                match chance.u8(..4) {
                    0 => bytes.truncate(at.max(5)),
                    1 => drop(bytes.splice(at..at, [chance.u8(..); 3])),
                    _ => bytes[at] = chance.u8(..),
                }
            }
            if let Ok(object) = decode(&bytes, ("v1", "Pod")) {
                drop(encode(&object));
            }
            drop(events(&bytes));
        }
    }
}

#[test]
fn a_schema_nested_without_end_is_refused() {
    let mut schema = Vec::new();
    for _ in 0..100_000 {
        let mut outer = Vec::new();
        // `not`
        wire::put_bytes(&mut outer, 28, &schema);
        schema = outer;
        if schema.len() > 20_000 {
            break;
        }
    }
    let version = [&field(1, b"v1")[..], &nested(4, &nested(1, &schema))].concat();
    let raw = nested(2, &nested(7, &version));
    let meta = [
        field(1, b"apiextensions.k8s.io/v1"),
        field(2, b"CustomResourceDefinition"),
    ];
    let body = [MAGIC, &field(1, &meta.concat()), &nested(2, &raw)].concat();
    let refused = decode(&body, ("", "")).expect_err("too deep");
    assert_eq!(refused.why(), "proto: message is nested too deeply");
}

/// One field with any number of bytes in it.
fn nested(number: u64, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    wire::put_bytes(&mut out, number, content);
    out
}
