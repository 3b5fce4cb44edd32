//! Whatever is sent, the box answers: requests at random, and good requests damaged at random.
//!
//! PROPTEST_CASES sets how many.

use aplomb_apiserver::http::{Service, admin};
use aplomb_apiserver::server::ApiServer;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::Value;
use tower::ServiceExt;

/// What may stand between two slashes.
const SEGMENTS: &[&str] = &[
    "api",
    "apis",
    "v1",
    "apps",
    "watch",
    "proxy",
    "namespaces",
    "default",
    "configmaps",
    "pods",
    "secrets",
    "deployments",
    "status",
    "finalize",
    "scale",
    "a",
    "",
    "..",
    "%2F",
    "%zz",
    "version",
    "healthz",
    "readyz",
    "openapi",
    "v3",
    "example.com",
    "widgets",
    "authorization.k8s.io",
    "selfsubjectaccessreviews",
    "rbac.authorization.k8s.io",
    "roles",
    "nodes",
    "events",
    "%C3%A9",
];
const METHODS: &[&str] = &[
    "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT", "FOO",
];
const PARAMETERS: &[&str] = &[
    "watch",
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
    "labelSelector",
    "fieldSelector",
    "timeoutSeconds",
    "allowWatchBookmarks",
    "sendInitialEvents",
    "dryRun",
    "fieldManager",
    "fieldValidation",
    "force",
    "propagationPolicy",
    "gracePeriodSeconds",
    "orphanDependents",
    "includeObject",
    "pretty",
    "verbose",
    "exclude",
];
const VALUES: &[&str] = &[
    "",
    "0",
    "1",
    "-1",
    "true",
    "false",
    "x",
    "All",
    "Strict",
    "Exact",
    "NotOlderThan",
    "Foreground",
    "a%3Db",
    "a%20in%20(b",
    "!a",
    "metadata.name%3Da",
    "spec.x%3D1",
    "%00",
    "99999999999999999999",
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0",
    "Object",
    "Table",
    "%FF",
    "etcd",
];
const HEADERS: &[&str] = &[
    "accept",
    "content-type",
    "accept",
    "content-type",
    "impersonate-user",
    "audit-id",
    "if-none-match",
];
const TYPES: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/merge-patch+json",
    "application/cbor",
    "application/json-patch+json",
    "application/apply-patch+yaml",
    "text/plain",
    ";;;",
    "*/*",
    "application/strategic-merge-patch+json",
    "application/vnd.kubernetes.protobuf",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;q=x, application/yaml",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
];
const GOOD_PATHS: &[&str] = &[
    "api/v1/namespaces/default/configmaps",
    "api/v1/namespaces/default/configmaps/a",
    "apis/apps/v1/namespaces/default/deployments/a/status",
    "apis/apps/v1/namespaces/default/deployments",
    "apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "api/v1/nodes",
];
const BODIES: &[&str] = &[
    r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"a":"b"}},"data":{"a":"1"}}"#,
    r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"replicas":1,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#,
    r#"[{"op":"replace","path":"/data/a","value":"2"},{"op":"test","path":"/data/b","value":{}}]"#,
    r#"{"metadata":{"finalizers":["example.com/f"],"managedFields":[{}],"resourceVersion":"1"}}"#,
    r#"{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"u"},"dryRun":["All"]}"#,
    r#"{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{"resourceAttributes":{"verb":"get"}}}"#,
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  a: &x \"1\"\n  b: *x\n",
    "",
    "null",
];

/// One request, as parts that can be put together in every wrong way.
#[derive(Clone, Debug)]
struct Attempt {
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

fn path() -> impl Strategy<Value = String> {
    let anything = prop::collection::vec(select(SEGMENTS), 0..8).prop_map(|parts| parts.join("/"));
    let good = select(GOOD_PATHS).prop_map(str::to_owned);
    let parameter = (select(PARAMETERS), select(VALUES)).prop_map(|(key, value)| format!("{key}={value}"));
    let query = prop::collection::vec(parameter, 0..4).prop_map(|pairs| pairs.join("&"));
    (prop_oneof![anything, good], query).prop_map(|(path, query)| format!("/{path}?{query}"))
}

fn headers() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    let value = prop_oneof![4 => select(TYPES).prop_map(str::to_owned), 1 => "[ -~]{0,30}"];
    prop::collection::vec((select(HEADERS), value), 0..4)
}

/// A body that is good, damaged or noise.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let damage = (any::<Index>(), any::<u8>(), 0..3_u8);
    let damaged = (select(BODIES), prop::collection::vec(damage, 0..4)).prop_map(|(text, damages)| {
        let mut bytes = text.as_bytes().to_vec();
        for (place, byte, how) in damages {
            if bytes.is_empty() {
                break;
            }
            let at = place.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => bytes.truncate(at),
            }
        }
        bytes
    });
    prop_oneof![4 => damaged, 1 => prop::collection::vec(any::<u8>(), 0..64)]
}

fn attempt() -> impl Strategy<Value = Attempt> {
    (select(METHODS), path(), headers(), body()).prop_map(|(method, path, headers, body)| Attempt {
        method,
        path,
        headers,
        body,
    })
}

fn request(attempt: &Attempt, token: &str) -> Option<Request<Full<Bytes>>> {
    let method = Method::from_bytes(attempt.method.as_bytes()).ok()?;
    let mut request = Request::builder().method(method).uri(&attempt.path);
    request = request.header("authorization", format!("Bearer {token}"));
    for (name, value) in &attempt.headers {
        request = request.header(*name, value.as_str());
    }
    request.body(Full::new(Bytes::from(attempt.body.clone()))).ok()
}

/// The whole answer; a watch is read until its first silence.
async fn read<B>(response: Response<B>) -> Vec<u8>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: std::fmt::Debug,
{
    let mut body = Box::pin(response.into_body());
    let mut bytes = Vec::new();
    let silence = std::time::Duration::from_millis(1);
    while let Ok(Some(frame)) = tokio::time::timeout(silence, body.frame()).await {
        let frame = frame.expect("the box does not break off");
        bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
    }
    bytes
}

/// An answer is a Status, an object, lines of events, YAML or one of the known texts.
fn check(attempt: &Attempt, code: u16, kind: &str, body: &[u8]) {
    let text = std::str::from_utf8(body);
    match kind {
        _ if body.is_empty() => {}
        kind if kind.starts_with("application/json") => {
            for value in serde_json::Deserializer::from_slice(body).into_iter::<Value>() {
                let value = value.unwrap_or_else(|error| panic!("{attempt:?}: {error}"));
                if code >= 400 {
                    assert_eq!(value["kind"], "Status", "{attempt:?}");
                    assert_eq!(value["code"], code, "{attempt:?}");
                }
            }
        }
        "text/plain; charset=utf-8" | "application/yaml" => assert!(text.is_ok(), "{attempt:?}"),
        kind if kind.contains("protobuf") => {}
        other => panic!("{attempt:?}: content type {other}"),
    }
    if let Ok(text) = text {
        assert!(!text.contains("caused apiserver to panic"), "{attempt:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_request_gets_a_well_formed_answer(attempts in prop::collection::vec(attempt(), 1..12)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let service = Service::new(ApiServer::builder().build());
            let token = service.token_for(&admin());
            for attempt in &attempts {
                let Some(request) = request(attempt, &token) else { continue };
                let response = service.clone().oneshot(request).await.expect("an answer");
                let code = response.status().as_u16();
                let kind = response.headers().get("content-type");
                let kind = kind.and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
                check(attempt, code, &kind, &read(response).await);
            }
        });
    }
}
