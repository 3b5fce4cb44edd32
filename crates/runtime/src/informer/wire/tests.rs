//! Responses are parsed in one pass, and objects that do not fit are named.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::stream;
use k8s_openapi::api::core::v1::ConfigMap;
use serde::Deserializer;
use serde::de::{MapAccess, Visitor};

use super::*;
use crate::view::{MetaRef, ViewMeta};

/// Records whether it was parsed straight from the text: only there can a string be borrowed.
struct Direct {
    metadata: ViewMeta,
}

static BORROWED: AtomicUsize = AtomicUsize::new(0);

impl<'de> Deserialize<'de> for Direct {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Probe;
        impl<'de> Visitor<'de> for Probe {
            type Value = Direct;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Direct, A::Error> {
                let mut metadata = None;
                while let Some(field) = map.next_key::<String>()? {
                    match field.as_str() {
                        "metadata" => metadata = Some(map.next_value()?),
                        // A raw value can only be taken from the text itself, never from a buffer.
                        _ => {
                            map.next_value::<&RawValue>()?;
                            BORROWED.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
                let metadata = metadata.unwrap_or_default();
                Ok(Direct { metadata })
            }
        }
        deserializer.deserialize_map(Probe)
    }
}

#[derive(Deserialize)]
struct Count {
    metadata: ViewMeta,
    #[expect(dead_code, reason = "only its type matters")]
    data: u64,
}

impl View for Count {
    type Kind = ConfigMap;
    fn meta(&self) -> MetaRef<'_> {
        self.metadata.as_ref()
    }
}

fn event(kind: &str, data: &str) -> String {
    let metadata = r#"{"name":"a","namespace":"n","uid":"u","resourceVersion":"7"}"#;
    format!(r#"{{"type":"{kind}","object":{{"metadata":{metadata},"data":{data}}}}}"#)
}

#[test]
fn an_object_is_read_in_place_when_the_type_comes_first() {
    let line = event("ADDED", r#"{"a":[1,2]}"#);
    let read: RawWatchLine<Direct> = serde_json::from_str(&line).unwrap();
    assert!(matches!(read, RawWatchLine::Added(direct) if direct.metadata.as_ref().name == "a"));
    assert_eq!(BORROWED.load(Ordering::Relaxed), 1);
}

#[test]
fn each_type_of_line_is_understood() {
    let said = |text: &str| parse_line::<Count>(text.as_bytes()).unwrap();
    assert!(matches!(
        said(&event("ADDED", "1")),
        WireObject::Put(DecodedObject::Object(_))
    ));
    assert!(matches!(
        said(&event("MODIFIED", "1")),
        WireObject::Put(DecodedObject::Object(_))
    ));
    assert!(matches!(
        said(&event("DELETED", "1")),
        WireObject::Deleted(DecodedObject::Object(_))
    ));
    let bookmark = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}"#;
    assert!(matches!(said(bookmark), WireObject::Bookmark(version) if version == "9"));
    let gone = r#"{"type":"ERROR","object":{"code":410,"reason":"Expired"}}"#;
    assert!(matches!(said(gone), WireObject::Error(status) if status.code == 410));
    let turned = r#"{"object":{"metadata":{"name":"a"},"data":1},"type":"ADDED"}"#;
    assert!(matches!(said(turned), WireObject::Put(DecodedObject::Object(_))));
}

#[test]
fn an_object_that_does_not_fit_is_named_without_its_values() {
    let text = event("MODIFIED", r#""s3cr3t""#);
    let Ok(WireObject::Put(DecodedObject::Unreadable(misfit))) = parse_line::<Count>(text.as_bytes()) else {
        panic!("expected a named object");
    };
    assert_eq!(misfit.key.to_string(), "n/a");
    assert_eq!(misfit.version, ResourceVersion::Number(7));
    assert!(misfit.error.starts_with("expected u64"), "{}", misfit.error);
    assert!(parse_line::<Count>(b"{\"type\":\"ADDED\",\"obj").is_err());
}

#[test]
fn page_keeps_decodable_and_undecodable_objects() {
    let item =
        |name: &str, data: &str| format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"1"}},"data":{data}}}"#);
    let list = |items: &[String]| {
        let metadata = r#"{"resourceVersion":"9","continue":""}"#;
        format!(r#"{{"metadata":{metadata},"items":[{}]}}"#, items.join(","))
    };
    let text = list(&[item("a", "1"), item("b", r#""s3cr3t""#)]);
    let page = parse_page::<Count>(text.as_bytes()).unwrap();
    assert!(matches!(&page.items[0], DecodedObject::Object(_)));
    assert!(matches!(&page.items[1], DecodedObject::Unreadable(misfit) if &*misfit.key.name == "b"));
    assert_eq!((page.continue_token, page.version.as_str()), (None, "9"));
}

#[test]
fn requests_carry_selectors_and_versions() {
    let scope = Scope {
        namespace: Some("n".to_owned()),
        labels: Some("a=b".to_owned()),
        fields: None,
    };
    let uri = watch_request::<Count>(&scope, "7", 250).unwrap().uri().to_string();
    for part in ["/namespaces/n/configmaps", "labelSelector=a%3Db", "resourceVersion=7"] {
        assert!(uri.contains(part), "{uri}");
    }
    assert!(uri.contains("allowWatchBookmarks=true") && uri.contains("timeoutSeconds=250"));
    let first = list_request::<Count>(&scope, &ReflectorTiming::default(), &ListPage::First).unwrap();
    assert!(first.uri().to_string().contains("limit=500"));
}

#[test]
fn metadata_view_requests_metadata_only() {
    type Names = crate::MetadataOnly<ConfigMap>;
    let scope = Scope::default();
    let list = list_request::<Names>(&scope, &ReflectorTiming::default(), &ListPage::First).unwrap();
    let watch = watch_request::<Names>(&scope, "7", 250).unwrap();
    assert!(
        list.headers()[ACCEPT]
            .to_str()
            .unwrap()
            .contains("PartialObjectMetadataList")
    );
    assert!(
        watch.headers()[ACCEPT]
            .to_str()
            .unwrap()
            .contains("as=PartialObjectMetadata;")
    );
}

#[derive(Deserialize)]
struct Lists {
    metadata: ViewMeta<std::collections::BTreeMap<String, String>>,
    #[serde(default)]
    data: Vec<u64>,
}

impl View for Lists {
    type Kind = ConfigMap;
    fn meta(&self) -> MetaRef<'_> {
        self.metadata.as_ref()
    }
}

#[test]
fn a_null_is_read_on_every_way_an_object_comes() {
    let object = r#"{"metadata":{"name":"a","labels":null,"finalizers":null},"data":null}"#;
    for kind in ["ADDED", "MODIFIED", "DELETED"] {
        for text in [
            format!(r#"{{"type":"{kind}","object":{object}}}"#),
            format!(r#"{{"object":{object},"type":"{kind}"}}"#),
        ] {
            let said = parse_line::<Lists>(text.as_bytes()).unwrap();
            let (WireObject::Put(seen) | WireObject::Deleted(seen)) = said else {
                panic!("expected an object");
            };
            assert!(
                matches!(seen, DecodedObject::Object(it) if it.data.is_empty()),
                "{text}"
            );
        }
    }
    let whole = r#"{"metadata":{"name":"b"},"data":[1]}"#;
    let list = format!(r#"{{"metadata":{{}},"items":[{object},{whole}]}}"#);
    let page = parse_page::<Lists>(list.as_bytes()).unwrap();
    assert!(page.items.iter().all(|it| matches!(it, DecodedObject::Object(_))));
}

async fn lines(pieces: &[&'static str]) -> Vec<WatchLine> {
    let pieces: Vec<Bytes> = pieces.iter().map(|piece| (*piece).into()).collect();
    let mut lines = LineReader::new(stream::iter(pieces).map(Ok));
    let mut read = Vec::new();
    while let Some(Ok(line)) = lines.next().await {
        read.push(line);
    }
    read
}

#[tokio::test]
async fn lines_are_found_wherever_the_pieces_end() {
    let whole = ["one", "two"].map(|line| WatchLine::Whole(line.into()));
    assert_eq!(lines(&["one\ntwo\n"]).await, whole);
    assert_eq!(lines(&["o", "ne", "\n", "\ntw", "o\n"]).await, whole);
    assert_eq!(lines(&["one\ntw", "o\n", ""]).await, whole);
}

#[tokio::test]
async fn unterminated_line_is_distinguished_from_a_whole_one() {
    let read = [WatchLine::Whole("one".into()), WatchLine::Unterminated("tw".into())];
    assert_eq!(lines(&["one\nt", "w"]).await, read);
}
