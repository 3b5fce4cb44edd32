//! OpenAPI: every document of both servers compared whole, custom resources in them, and the
//! headers that let clients keep what they got.

mod custom;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};

use crate::case::Case;
use crate::case_run::CaseRun;

pub(super) const CASES: &[Case] = &[
    Case::new("openapi/every-document-of-built-in-kinds", |t| Box::pin(documents(t))),
    Case::new("openapi/the-v2-document", |t| Box::pin(swagger(t))),
    Case::new("openapi/a-rich-definition", |t| Box::pin(custom::rich(t))),
    Case::new("openapi/definitions-that-keep-unknown-fields", |t| {
        Box::pin(custom::open(t))
    }),
    Case::new("openapi/definitions-of-the-gateway-api", |t| {
        Box::pin(custom::gateway_api(t))
    }),
    Case::new("openapi/follows-a-definition", |t| Box::pin(custom::follows(t))),
    Case::new("openapi/forms-and-headers", |t| Box::pin(forms(t))),
    Case::new("openapi/all-of-discovery", |t| Box::pin(discovery(t))),
];

const INDEX: &str = "/openapi/v3";
const V2: &str = "/openapi/v2";

/// A short stand-in for a large value: equal for equal values of one run.
fn digest(value: &Value) -> Value {
    let mut hasher = DefaultHasher::new();
    value.to_string().hash(&mut hasher);
    format!("{:016x}", hasher.finish()).into()
}

/// Each member of an object by its digest.
fn digests(members: &Value, keep: impl Fn(&str) -> bool) -> Value {
    let members = members.as_object().into_iter().flatten();
    let kept = members.filter(|(name, _)| keep(name));
    let digests: Map<String, Value> = kept.map(|(name, value)| (name.clone(), digest(value))).collect();
    Value::Object(digests)
}

/// A document with its paths and schemas as digests, so that a difference names where it is.
fn outline(document: &Value, keep: impl Fn(&str) -> bool) -> Value {
    let mut outline = document.clone();
    for pointer in ["/paths", "/components/schemas", "/definitions", "/parameters"] {
        if let Some(part) = outline.pointer_mut(pointer) {
            *part = digests(part, &keep);
        }
    }
    outline
}

async fn body(t: &CaseRun, path: &str) -> Result<Value> {
    Ok(t.quiet("GET", path, &[], "").await?.code(200)?.body)
}

async fn index(t: &CaseRun) -> Result<BTreeMap<String, String>> {
    let index = body(t, INDEX).await?;
    let paths = index["paths"].as_object().context("no paths")?;
    let url = |item: &Value| item["serverRelativeURL"].as_str().unwrap_or_default().to_owned();
    Ok(paths.iter().map(|(path, item)| (path.clone(), url(item))).collect())
}

/// Whether a name is not that of a custom resource, which other cases make and remove.
fn built_in(name: &str) -> bool {
    ![
        "example.com",
        "com.example.",
        "gateway.networking",
        "networking.gateway",
    ]
    .iter()
    .any(|custom| name.contains(custom))
}

async fn documents(t: &CaseRun) -> Result<()> {
    let index = index(t).await?;
    let own: Vec<_> = index.iter().filter(|(path, _)| built_in(path)).collect();
    ensure!(own.len() > 40, "{own:?}");
    for (path, url) in own {
        // Both servers publish the same bytes under the same hash.
        t.note(path, url.as_str()).await;
        let document = body(t, url).await?;
        t.note("document", outline(&document, |_| true)).await;
    }
    Ok(())
}

async fn swagger(t: &CaseRun) -> Result<()> {
    let document = body(t, V2).await?;
    let definitions = document["definitions"].as_object().map_or(0, Map::len);
    ensure!(definitions > 500, "{definitions}");
    t.note("document", outline(&document, built_in)).await;
    Ok(())
}

/// What a client sees of one request besides the body.
async fn headers(t: &CaseRun, path: &str, headers: &[(&str, &str)]) -> Result<(Value, String)> {
    let mut request = http::Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = t.client.send(request.body(kube::client::Body::empty())?).await?;
    let header = |name: &str| {
        let values = response.headers().get_all(name).iter();
        let texts: Vec<_> = values.filter_map(|value| value.to_str().ok()).collect();
        texts.join(", ")
    };
    let etag = header("etag");
    let shown = json!({
        "code": response.status().as_u16(),
        "type": header("content-type"),
        "cache": header("cache-control"),
        "vary": header("vary"),
        "encoding": header("content-encoding"),
        "location": header("location"),
        "tagged": !etag.is_empty(),
        "expires": !header("expires").is_empty(),
    });
    Ok((shown, etag))
}

async fn forms(t: &CaseRun) -> Result<()> {
    const V2_PROTO: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    const V3_PROTO: &str = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";
    let version = "/openapi/v3/version";
    let (_, etag) = headers(t, version, &[]).await?;
    let hashed = index(t).await?.remove("version").context("no version")?;
    let requests: &[(&str, &[(&str, &str)])] = &[
        (INDEX, &[]),
        ("/openapi/v3/", &[]),
        ("/openapi/v3/nothing", &[]),
        (version, &[]),
        (&hashed, &[]),
        ("/openapi/v3/version?hash=other", &[]),
        (version, &[("accept", "text/html")]),
        (version, &[("accept", V3_PROTO)]),
        (version, &[("if-none-match", &etag)]),
        (version, &[("if-none-match", "\"other\"")]),
        (version, &[("accept-encoding", "gzip")]),
        (V2, &[]),
        (V2, &[("accept", "text/html")]),
        (V2, &[("accept", V2_PROTO)]),
        ("/openapi/v2/", &[]),
        ("/openapi", &[]),
    ];
    for (path, asked) in requests {
        let (shown, _) = headers(t, path, asked).await?;
        t.note(&format!("{path} {asked:?}"), shown).await;
    }
    Ok(())
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

async fn discovery(t: &CaseRun) -> Result<()> {
    t.get("/api/v1").await?.code(200)?;
    let groups = body(t, "/apis").await?;
    let groups = groups["groups"].as_array().cloned().unwrap_or_default();
    let name = |group: &Value| group["name"].as_str().unwrap_or_default().to_owned();
    for group in groups.iter().filter(|group| built_in(&name(group))) {
        t.note("group", group.clone()).await;
        t.get(&format!("/apis/{}", name(group))).await?.code(200)?;
        for version in group["versions"].as_array().into_iter().flatten() {
            let version = version["groupVersion"].as_str().unwrap_or_default();
            t.get(&format!("/apis/{version}")).await?.code(200)?;
        }
    }
    for path in ["/api", "/apis"] {
        let headers = [("accept", AGGREGATED)];
        let list = t.quiet("GET", path, &headers, "").await?.code(200)?.body;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let own = items.into_iter().filter(|item| built_in(&name(&item["metadata"])));
        t.note(path, own.collect::<Vec<_>>()).await;
    }
    Ok(())
}
