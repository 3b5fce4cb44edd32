//! Requests that are wrong as bytes: bad JSON, wrong types, half a request.

use anyhow::{Result, ensure};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Duration, timeout};

use crate::case::Case;
use crate::case_run::{APPLY, CaseRun, JSON_PATCH, MERGE};
use crate::verbs::widget;

pub(super) const CASES: &[Case] = &[
    Case::new("malformed/json-in-a-creation", |t| Box::pin(bad_json(t))),
    Case::new("malformed/json-for-a-built-in-kind", |t| Box::pin(bad_json_built_in(t))),
    Case::new("malformed/json-of-the-wrong-type", |t| Box::pin(wrong_type(t))),
    Case::new("malformed/fields-of-the-wrong-type-in-a-built-in-kind", |t| {
        Box::pin(wrong_fields(t))
    }),
    Case::new("malformed/metadata-of-the-wrong-type", |t| Box::pin(wrong_metadata(t))),
    Case::new("malformed/an-empty-body", |t| Box::pin(empty_body(t))),
    Case::new("malformed/content-types", |t| Box::pin(content_types(t))),
    Case::new("malformed/yaml-bodies", |t| Box::pin(yaml(t))),
    Case::new("malformed/patches", |t| Box::pin(patches(t))),
    Case::new("malformed/patch-content-types", |t| Box::pin(patch_types(t))),
    Case::new("malformed/parameters", |t| Box::pin(parameters(t))),
    Case::new("malformed/paths", |t| Box::pin(paths(t))),
    Case::new("malformed/duplicate-fields", |t| Box::pin(duplicate_fields(t))),
    Case::new("malformed/delete-options", |t| Box::pin(delete_options(t))),
    Case::new("malformed/deep-nesting", |t| Box::pin(deep(t))),
    Case::new("malformed/half-a-request", |t| Box::pin(half(t))),
    Case::new("malformed/a-refusal-leaves-the-connection-open", |t| {
        Box::pin(refusal_before_body(t))
    }),
    Case::new("malformed/garbage-on-the-wire", |t| Box::pin(garbage(t))),
    Case::new("malformed/large-patches", |t| Box::pin(large_patch(t))),
];

/// More than any answer takes.
const LONG: Duration = Duration::from_secs(30);

const BODIES: [&str; 9] = [
    "{",
    "}",
    "nonsense",
    "[1,2",
    "{\"a\":}",
    "\"text\"",
    "[]",
    "null",
    "{\"metadata\":{\"name\":\"a\"",
];

async fn bad_json(t: &CaseRun) -> Result<()> {
    for body in BODIES {
        let answer = t.send("POST", &t.widgets(), &[], body).await?;
        ensure!((400..500).contains(&answer.code), "{body}: {}", answer.code);
    }
    Ok(())
}

async fn bad_json_built_in(t: &CaseRun) -> Result<()> {
    for body in BODIES {
        let answer = t.send("POST", &t.core("configmaps"), &[], body).await?;
        ensure!((400..500).contains(&answer.code), "{body}: {}", answer.code);
    }
    Ok(())
}

async fn wrong_type(t: &CaseRun) -> Result<()> {
    let made = t.new_widget("a", json!({})).await?;
    for body in BODIES {
        let answer = t.send("PUT", &t.widget("a"), &[], body).await?;
        ensure!((400..500).contains(&answer.code), "{body}: {}", answer.code);
    }
    let now = t.get(&t.widget("a")).await?;
    ensure!(now.version()? == made.version()?, "something was written");
    Ok(())
}

async fn wrong_fields(t: &CaseRun) -> Result<()> {
    for data in [
        json!("text"),
        json!([1]),
        json!({ "k": 1 }),
        json!({ "k": null }),
        json!({ "k": {} }),
    ] {
        let body = json!({ "metadata": { "name": "a" }, "data": data });
        t.create(&t.core("configmaps"), &body).await?;
    }
    let body = json!({ "metadata": { "name": "b" }, "data": { "k": "not base64!" } });
    t.create(&t.core("secrets"), &body).await?.refused(400, "BadRequest")?;
    let body = json!({ "metadata": { "name": "b" }, "spec": { "replicas": "three" } });
    t.create(&t.api("apps/v1", "deployments"), &body)
        .await?
        .refused(400, "BadRequest")?;
    let body = json!({ "metadata": { "name": "b" }, "spec": { "ports": [{ "port": 80.5 }] } });
    t.create(&t.core("services"), &body).await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn wrong_metadata(t: &CaseRun) -> Result<()> {
    let wrong = [
        json!("text"),
        json!({ "name": 5 }),
        json!({ "name": "a", "labels": "text" }),
        json!({ "name": "a", "labels": { "a": 1 } }),
        json!({ "name": "a", "finalizers": "text" }),
        json!({ "name": "a", "ownerReferences": {} }),
        json!({ "name": "a", "creationTimestamp": "yesterday" }),
        json!({ "name": "a", "generation": "one" }),
    ];
    for metadata in wrong {
        let mut body = widget("a", json!({}));
        body["metadata"] = metadata.clone();
        t.create(&t.widgets(), &body).await?;
        t.create(&t.core("configmaps"), &json!({ "metadata": metadata }))
            .await?;
    }
    Ok(())
}

async fn empty_body(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    let json = [("content-type", "application/json")];
    t.send("POST", &t.widgets(), &json, "").await?.code(400)?;
    t.send("PUT", &t.widget("a"), &json, "").await?.code(400)?;
    t.send("POST", &t.core("configmaps"), &json, "").await?.code(400)?;
    t.send("PATCH", &t.widget("a"), &[("content-type", MERGE)], "").await?;
    t.send("PATCH", &t.widget("a"), &[("content-type", JSON_PATCH)], "")
        .await?;
    t.send("DELETE", &t.widget("a"), &json, "").await?.code(200)?;
    Ok(())
}

async fn content_types(t: &CaseRun) -> Result<()> {
    let body = widget("a", json!({})).to_string();
    for kind in [
        "text/plain",
        "application/xml",
        "nonsense",
        "application/x-www-form-urlencoded",
    ] {
        let answer = t
            .send("POST", &t.widgets(), &[("content-type", kind)], body.clone())
            .await?;
        answer.refused(415, "UnsupportedMediaType")?;
    }
    let charset = [("content-type", "application/json; charset=utf-8")];
    t.send("POST", &t.widgets(), &charset, body).await?.code(201)?;
    Ok(())
}

async fn yaml(t: &CaseRun) -> Result<()> {
    let headers = [("content-type", "application/yaml")];
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: v\n";
    t.send("POST", &t.core("configmaps"), &headers, body).await?.code(201)?;
    let wrong = t.send("POST", &t.core("configmaps"), &headers, "a: [b\n").await?;
    wrong.refused(400, "BadRequest")?;
    Ok(())
}

async fn patches(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    let wrong = [
        (MERGE, "{"),
        (MERGE, "[]"),
        (MERGE, "\"text\""),
        (MERGE, "null"),
        (MERGE, "{\"spec\":null}"),
        (MERGE, "{\"metadata\":null}"),
        (MERGE, "{\"kind\":\"Gadget\"}"),
        (MERGE, "{\"apiVersion\":\"v9\"}"),
        (MERGE, "{\"kind\":null,\"metadata\":{\"annotations\":{\"a\":\"<b>\"}}}"),
        (MERGE, "{\"metadata\":{\"name\":\"b\"}}"),
        (MERGE, "{\"metadata\":{\"uid\":\"x\"}}"),
        (JSON_PATCH, "{"),
        (JSON_PATCH, "{}"),
        (JSON_PATCH, "[{}]"),
        (JSON_PATCH, "[{\"op\":\"dance\",\"path\":\"/spec\"}]"),
        (JSON_PATCH, "[{\"op\":\"add\",\"path\":\"spec\",\"value\":1}]"),
        (JSON_PATCH, "[{\"op\":\"remove\",\"path\":\"/metadata/name\"}]"),
        (
            JSON_PATCH,
            "[{\"op\":\"copy\",\"from\":\"/nothing\",\"path\":\"/spec/color\"}]",
        ),
    ];
    for (kind, body) in wrong {
        t.send("PATCH", &t.widget("a"), &[("content-type", kind)], body).await?;
    }
    Ok(())
}

async fn patch_types(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    for kind in ["application/json", "text/plain", "application/apply-patch+cbor"] {
        let headers = [("content-type", kind)];
        t.send("PATCH", &t.widget("a"), &headers, "{}")
            .await?
            .refused(415, "UnsupportedMediaType")?;
    }
    let charset = [("content-type", "application/merge-patch+json; charset=utf-8")];
    t.send("PATCH", &t.widget("a"), &charset, "{}").await?;
    t.send(
        "PATCH",
        &t.core("configmaps/a"),
        &[("content-type", "text/plain")],
        "{}",
    )
    .await?;
    let apply = [("content-type", APPLY)];
    t.send("PATCH", &t.widgets(), &apply, "{}").await?;
    Ok(())
}

async fn parameters(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    let queries = [
        "timeoutSeconds=abc",
        "watch=maybe",
        "allowWatchBookmarks=perhaps",
        "sendInitialEvents=perhaps",
        "limit=9999999999999999999999",
        "unknown=parameter",
        "pretty=perhaps",
    ];
    for query in queries {
        t.get(&format!("{}?timeoutSeconds=1&{query}", t.widgets())).await?;
    }
    let patch = json!({ "spec": { "color": "red" } });
    for query in [
        "fieldValidation=Perhaps",
        "dryRun=Perhaps",
        "fieldManager=a%0ab",
        "force=perhaps",
    ] {
        t.merge(&format!("{}?{query}", t.widget("a")), &patch).await?;
    }
    for query in [
        "gracePeriodSeconds=soon",
        "propagationPolicy=Sideways",
        "orphanDependents=perhaps",
    ] {
        t.delete(&format!("{}?{query}", t.widget("a"))).await?;
    }
    Ok(())
}

async fn paths(t: &CaseRun) -> Result<()> {
    let paths = [
        "//api/v1/namespaces/default",
        "/api/v1/namespaces/",
        "/api/v1/namespaces/default/",
        "/api//v1",
        "/apis/",
        "/apis/apps/",
        "/apis/apps/v1/",
        "/api/v1/namespaces/default/configmaps/a/b/c",
        "/%61pi/v1/namespaces/default/configmaps/none",
        "/api/v1/namespaces/default/configmaps/with%20space",
        "/api/v1/namespaces/default/configmaps/a%2Fb",
    ];
    for path in paths {
        let answer = t.quiet("GET", path, &[], "").await?;
        let shown = if answer.code == 200 {
            json!("served")
        } else {
            answer.body
        };
        t.note(path, json!([answer.code, answer.content_type, shown])).await;
    }
    Ok(())
}

async fn duplicate_fields(t: &CaseRun) -> Result<()> {
    let body = |name: &str| {
        format!(
            r#"{{"apiVersion":"conformance.example.com/v1","kind":"Widget",
            "metadata":{{"name":"{name}"}},"spec":{{"color":"red","color":"blue"}}}}"#
        )
    };
    let strict = format!("{}?fieldValidation=Strict", t.widgets());
    t.send("POST", &strict, &[], body("a"))
        .await?
        .refused(400, "BadRequest")?;
    let warned = t.send("POST", &t.widgets(), &[], body("a")).await?.code(201)?;
    warned
        .warns("duplicate field \"spec.color\"")?
        .has("/spec/color", "blue")?;
    let ignored = format!("{}?fieldValidation=Ignore", t.widgets());
    let ignored = t.send("POST", &ignored, &[], body("b")).await?.code(201)?;
    ensure!(ignored.warnings.is_empty(), "{:?}", ignored.warnings);
    Ok(())
}

async fn delete_options(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    for body in ["{", "[]", "\"text\"", "{\"kind\":\"Pod\",\"apiVersion\":\"v1\"}"] {
        let answer = t.send("DELETE", &t.widget("a"), &[], body).await?;
        ensure!((400..500).contains(&answer.code), "{body}: {}", answer.code);
    }
    let unknown = json!({ "unheard": true, "kind": "DeleteOptions", "apiVersion": "v1" });
    t.delete_with(&t.widget("a"), &unknown).await?;
    Ok(())
}

async fn deep(t: &CaseRun) -> Result<()> {
    let nested = |depth: usize| {
        let (open, close) = (r#"{"a":"#.repeat(depth), "}".repeat(depth));
        format!(
            r#"{{"apiVersion":"conformance.example.com/v1","kind":"Widget",
            "metadata":{{"name":"a"}},"spec":{{"free":{open}1{close}}}}}"#
        )
    };
    let far = t.quiet("POST", &t.widgets(), &[], nested(20_000)).await?;
    ensure!((400..500).contains(&far.code), "{}", far.code);
    let dry = format!("{}?dryRun=All", t.widgets());
    t.quiet("POST", &dry, &[], nested(50)).await?.code(201)?;
    Ok(())
}

async fn exchange(t: &CaseRun, bytes: &[u8]) -> Result<String> {
    let mut stream = t.server.connect().await?;
    stream.write_all(bytes).await?;
    stream.shutdown().await?;
    let mut answer = Vec::new();
    // A peer may close without the TLS goodbye: what came is what counts.
    let _ended = timeout(LONG, stream.read_to_end(&mut answer)).await;
    let text = String::from_utf8_lossy(&answer).into_owned();
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

async fn half(t: &CaseRun) -> Result<()> {
    let token = t.server.token();
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\nContent-Type: \
         application/json\r\nContent-Length: 500\r\n\r\n{{\"metadata\":",
        t.widgets()
    );
    exchange(t, head.as_bytes()).await?;
    exchange(t, b"GET /api/v1/names").await?;
    // Whatever it made of that, it goes on.
    t.get(&t.widgets()).await?.code(200)?.has("/items", json!([]))?;
    Ok(())
}

/// The body that nobody reads comes after its request, and the connection takes the next one.
async fn refusal_before_body(t: &CaseRun) -> Result<()> {
    let head = format!("Host: a\r\nAuthorization: Bearer {}", t.server.token());
    let body = "x".repeat(100_000);
    let path = t.widgets();
    let mut stream = t.server.connect().await?;
    let refused = format!(
        "POST {path} HTTP/1.1\r\n{head}\r\nContent-Type: text/none\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(refused.as_bytes()).await?;
    stream.flush().await?;
    let next = format!("{body}GET {path} HTTP/1.1\r\n{head}\r\nConnection: close\r\n\r\n");
    stream.write_all(next.as_bytes()).await?;
    let mut answers = Vec::new();
    // A peer may close without the TLS goodbye: what came is what counts.
    let _ended = timeout(LONG, stream.read_to_end(&mut answers)).await?;
    let answers = String::from_utf8_lossy(&answers);
    ensure!(answers.starts_with("HTTP/1.1 415"), "{answers}");
    ensure!(answers.contains("HTTP/1.1 200 OK"), "{answers}");
    Ok(())
}

async fn garbage(t: &CaseRun) -> Result<()> {
    let wrong: [&[u8]; 5] = [
        b"\x00\x01\x02\x03\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\nHost: a\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nbad header\r\n\r\n",
        b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
    ];
    for bytes in wrong {
        let line = exchange(t, bytes).await?;
        ensure!(!line.starts_with("HTTP/1.1 200"), "{line}");
    }
    t.get(&t.widgets()).await?.code(200)?;
    Ok(())
}

async fn large_patch(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    let body = json!({ "spec": { "settings": { "k": "x".repeat(4 << 20) } } });
    t.merge(&t.widget("a"), &body).await?.code(413)?;
    let many: Vec<_> = (0..10_001)
        .map(|n| json!({ "op": "add", "path": "/spec/min", "value": n }))
        .collect();
    t.json_patch(&t.widget("a"), &json!(many)).await?.code(413)?;
    Ok(())
}
