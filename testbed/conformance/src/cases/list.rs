//! Lists: order, pages, versions, selectors.

use anyhow::{Result, ensure};
use base64::Engine;
use base64::prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::answer::Answer;
use crate::case::Case;
use crate::case_run::CaseRun;
use crate::verbs::{config_map, widget, with};

pub(super) const CASES: &[Case] = &[
    Case::new("list/is-in-key-order", |t| Box::pin(key_order(t))),
    Case::new("list/all-namespaces-is-in-key-order", |t| Box::pin(all_namespaces(t))),
    Case::new("list/of-nothing", |t| Box::pin(nothing(t))),
    Case::new("list/pages-show-the-first-pages-version", |t| Box::pin(pages(t))),
    Case::new("list/a-token-names-version-and-start", |t| Box::pin(token(t))),
    Case::new("list/with-a-selector-does-not-count-the-rest", |t| {
        Box::pin(no_remaining(t))
    }),
    Case::new("list/a-garbage-token-is-refused", |t| Box::pin(garbage_token(t))),
    Case::new("list/an-expired-token-offers-another", |t| Box::pin(expired_token(t))).alone(),
    Case::new("list/at-an-exact-version-that-is-compacted", |t| Box::pin(compacted(t))).alone(),
    Case::new("list/at-an-exact-version", |t| Box::pin(exact(t))),
    Case::new("list/not-older-than-a-version", |t| Box::pin(not_older(t))),
    Case::new("list/version-zero-is-any-version", |t| Box::pin(zero(t))),
    Case::new("list/bad-version-parameters-are-refused", |t| {
        Box::pin(bad_parameters(t))
    }),
    Case::new("list/a-future-version-times-out", |t| Box::pin(future(t))),
    Case::new("list/get-of-a-future-version-times-out", |t| Box::pin(get_future(t))),
    Case::new("list/items-of-built-in-kinds-have-no-type", |t| Box::pin(types(t))),
    Case::new("list/label-selectors", |t| Box::pin(labels(t))),
    Case::new("list/bad-label-selectors-are-refused", |t| Box::pin(bad_labels(t))),
    Case::new("list/field-selectors", |t| Box::pin(fields(t))),
    Case::new("list/unknown-field-selectors-are-refused", |t| {
        Box::pin(unknown_fields(t))
    }),
    Case::new("list/field-selectors-of-built-in-kinds", |t| {
        Box::pin(built_in_fields(t))
    }),
    Case::new("list/a-bad-limit", |t| Box::pin(bad_limit(t))),
];

async fn key_order(t: &CaseRun) -> Result<()> {
    for name in ["b", "a.b", "c", "a", "a-b", "10", "9"] {
        t.new_widget(name, json!({})).await?;
    }
    let list = t.get(&t.widgets()).await?.code(200)?;
    ensure!(
        list.names() == ["10", "9", "a", "a-b", "a.b", "b", "c"],
        "{:?}",
        list.names()
    );
    list.has("/kind", "WidgetList")?;
    Ok(())
}

async fn all_namespaces(t: &CaseRun) -> Result<()> {
    let label = json!({ "metadata": { "labels": { "trial": t.namespace } } });
    let others = [format!("{}-b", t.namespace), format!("{}-a", t.namespace)];
    for namespace in &others {
        let body = json!({ "metadata": { "name": namespace } });
        t.create("/api/v1/namespaces", &body).await?.code(201)?;
        let path = format!("/apis/conformance.example.com/v1/namespaces/{namespace}/widgets");
        t.create(&path, &with(&widget("x", json!({})), label.clone()))
            .await?
            .code(201)?;
    }
    let selector = format!("labelSelector=trial%3D{}", t.namespace);
    let list = t
        .get(&format!("/apis/conformance.example.com/v1/widgets?{selector}"))
        .await?;
    let first = list.text("/items/0/metadata/namespace");
    ensure!(first == others[1], "{first}");
    Ok(())
}

async fn nothing(t: &CaseRun) -> Result<()> {
    t.get(&t.widgets()).await?.code(200)?.has("/items", json!([]))?;
    t.get(&t.core("configmaps"))
        .await?
        .code(200)?
        .has("/items", json!([]))?;
    Ok(())
}

async fn some(t: &CaseRun, count: usize) -> Result<()> {
    for n in 0..count {
        t.new_widget(&format!("w{n}"), json!({})).await?;
    }
    Ok(())
}

async fn page(t: &CaseRun, query: &str) -> Result<Answer> {
    t.get(&format!("{}?{query}", t.widgets())).await
}

async fn next_page(t: &CaseRun, limit: usize, token: &str) -> Result<Answer> {
    let path = format!("{}?limit={limit}&continue={token}", t.widgets());
    let mut answer = t.quiet("GET", &path, &[], "").await?;
    answer.request = format!("next page of {limit}");
    t.record(&answer).await;
    Ok(answer)
}

async fn pages(t: &CaseRun) -> Result<()> {
    some(t, 5).await?;
    let first = page(t, "limit=2")
        .await?
        .code(200)?
        .has("/metadata/remainingItemCount", 3)?;
    t.new_widget("w9", json!({})).await?;
    t.delete(&t.widget("w2")).await?.code(200)?;
    let second = next_page(t, 2, &first.text("/metadata/continue")).await?.code(200)?;
    ensure!(second.names() == ["w2", "w3"], "{:?}", second.names());
    ensure!(second.version()? == first.version()?, "another version");
    let third = next_page(t, 2, &second.text("/metadata/continue")).await?.code(200)?;
    ensure!(third.names() == ["w4"], "{:?}", third.names());
    third
        .has("/metadata/continue", "")?
        .lacks("/metadata/remainingItemCount")?;
    Ok(())
}

fn decode(token: &str) -> Result<Value> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(token.trim_end_matches('='));
    let bytes = bytes.or_else(|_| BASE64_STANDARD_NO_PAD.decode(token.trim_end_matches('=')))?;
    Ok(serde_json::from_slice(&bytes)?)
}

async fn token(t: &CaseRun) -> Result<()> {
    some(t, 2).await?;
    let first = page(t, "limit=1").await?.code(200)?;
    let token = decode(&first.text("/metadata/continue"))?;
    ensure!(token["v"] == "meta.k8s.io/v1", "{token}");
    ensure!(token["rv"].as_u64() == Some(first.version()?), "{token}");
    t.note("start", token["start"].clone()).await;
    Ok(())
}

async fn no_remaining(t: &CaseRun) -> Result<()> {
    for n in 0..3 {
        let label = json!({ "metadata": { "labels": { "a": "b" } } });
        t.create(&t.widgets(), &with(&widget(&format!("w{n}"), json!({})), label))
            .await?
            .code(201)?;
    }
    let first = page(t, "limit=1&labelSelector=a%3Db").await?.code(200)?;
    first.lacks("/metadata/remainingItemCount")?;
    Ok(())
}

async fn garbage_token(t: &CaseRun) -> Result<()> {
    page(t, "limit=1&continue=garbage").await?.refused(400, "BadRequest")?;
    let old = BASE64_URL_SAFE_NO_PAD.encode(r#"{"v":"meta.k8s.io/v0","rv":1,"start":"a"}"#);
    page(t, &format!("limit=1&continue={old}"))
        .await?
        .refused(400, "BadRequest")?;
    let both = BASE64_URL_SAFE_NO_PAD.encode(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"a"}"#);
    page(t, &format!("limit=1&resourceVersion=1&continue={both}"))
        .await?
        .refused(400, "BadRequest")?;
    Ok(())
}

async fn expired_token(t: &CaseRun) -> Result<()> {
    some(t, 3).await?;
    let old = r#"{"v":"meta.k8s.io/v1","rv":2,"start":"NS/w0\u0000"}"#.replace("NS", &t.namespace);
    let token = BASE64_URL_SAFE_NO_PAD.encode(old);
    let now = t.get(&t.widgets()).await?.version()?;
    t.server.compact(now).await?;
    let expired = next_page(t, 1, &token).await?.refused(410, "Expired")?;
    let fresh = decode(&expired.text("/metadata/continue"))?;
    ensure!(fresh["rv"].as_i64() == Some(-1), "{fresh}");
    let rest = next_page(t, 5, &expired.text("/metadata/continue")).await?.code(200)?;
    ensure!(rest.version()? >= now, "not the present");
    t.note("names", json!(rest.names())).await;
    Ok(())
}

async fn exact(t: &CaseRun) -> Result<()> {
    let made = t.new_widget("a", json!({})).await?;
    t.new_widget("b", json!({})).await?;
    let path = format!(
        "{}?resourceVersionMatch=Exact&resourceVersion={}",
        t.widgets(),
        made.version()?
    );
    let list = t.quiet("GET", &path, &[], "").await?.code(200)?;
    ensure!(
        list.names() == ["a"] && list.version()? == made.version()?,
        "{}",
        list.body
    );
    Ok(())
}

async fn compacted(t: &CaseRun) -> Result<()> {
    some(t, 2).await?;
    let now = t.get(&t.widgets()).await?.version()?;
    t.server.compact(now).await?;
    // Older than the cache of this resource, which outlives a compaction.
    for limit in ["", "&limit=1"] {
        let query = format!("resourceVersionMatch=Exact&resourceVersion=2{limit}");
        page(t, &query)
            .await?
            .refused(410, "Expired")?
            .has("/message", "The resourceVersion for the provided list is too old.")?
            .lacks("/metadata/continue")?;
    }
    let path = format!("{}?resourceVersionMatch=Exact&resourceVersion={now}", t.widgets());
    let list = t.quiet("GET", &path, &[], "").await?.code(200)?;
    ensure!(list.names() == ["w0", "w1"], "{}", list.body);
    Ok(())
}

async fn not_older(t: &CaseRun) -> Result<()> {
    let made = t.new_widget("a", json!({})).await?;
    t.new_widget("b", json!({})).await?;
    for matching in ["&resourceVersionMatch=NotOlderThan", ""] {
        let path = format!("{}?resourceVersion={}{matching}", t.widgets(), made.version()?);
        let list = t.quiet("GET", &path, &[], "").await?.code(200)?;
        ensure!(list.version()? >= made.version()?, "older");
        ensure!(list.names().contains(&"a".to_owned()), "{:?}", list.names());
    }
    Ok(())
}

async fn zero(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    page(t, "resourceVersion=0").await?.code(200)?;
    page(t, "resourceVersion=0&limit=1").await?.code(200)?;
    page(t, "resourceVersion=0&resourceVersionMatch=NotOlderThan")
        .await?
        .code(200)?;
    Ok(())
}

async fn bad_parameters(t: &CaseRun) -> Result<()> {
    let refused = [
        "resourceVersionMatch=Exact",
        "resourceVersionMatch=NotOlderThan",
        "resourceVersionMatch=Nonsense&resourceVersion=1",
        "resourceVersionMatch=Exact&resourceVersion=0",
    ];
    for query in refused {
        page(t, query).await?.refused(422, "Invalid")?;
    }
    page(t, "resourceVersion=abc").await?;
    page(t, "resourceVersion=-1").await?;
    Ok(())
}

async fn future(t: &CaseRun) -> Result<()> {
    let started = Instant::now();
    let path = "resourceVersion=999999999&resourceVersionMatch=NotOlderThan";
    let refused = page(t, path).await?.refused(504, "Timeout")?;
    let refused = refused.has("/details/causes/0/reason", "ResourceVersionTooLarge")?;
    refused.has("/details/retryAfterSeconds", 1)?;
    // It waits three seconds for such a version to come; how much longer is the machine's affair.
    let took = started.elapsed();
    ensure!((2..30).contains(&took.as_secs()), "{took:?}");
    Ok(())
}

async fn get_future(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    let path = format!("{}?resourceVersion=999999999", t.widget("a"));
    t.get(&path).await?.refused(504, "Timeout")?;
    Ok(())
}

async fn types(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    t.create(&t.core("configmaps"), &config_map("a", json!({})))
        .await?
        .code(201)?;
    t.get(&t.widgets()).await?.has("/items/0/kind", "Widget")?;
    t.get(&t.core("configmaps"))
        .await?
        .lacks("/items/0/kind")?
        .lacks("/items/0/apiVersion")?;
    Ok(())
}

async fn labels(t: &CaseRun) -> Result<()> {
    for (name, tier) in [("a", "front"), ("b", "back"), ("c", "")] {
        let labels = if tier.is_empty() {
            json!({})
        } else {
            json!({ "tier": tier })
        };
        let body = with(&widget(name, json!({})), json!({ "metadata": { "labels": labels } }));
        t.create(&t.widgets(), &body).await?.code(201)?;
    }
    let selectors: [(&str, &[&str]); 8] = [
        ("tier=front", &["a"]),
        ("tier==back", &["b"]),
        ("tier!=front", &["b", "c"]),
        ("tier", &["a", "b"]),
        ("!tier", &["c"]),
        ("tier in (front,back)", &["a", "b"]),
        ("tier notin (front)", &["b", "c"]),
        ("tier,tier!=back", &["a"]),
    ];
    for (selector, names) in selectors {
        let encoded = selector.replace('=', "%3D").replace(' ', "%20").replace('!', "%21");
        let list = page(t, &format!("labelSelector={encoded}")).await?.code(200)?;
        ensure!(list.names() == names, "{selector}: {:?}", list.names());
    }
    Ok(())
}

async fn bad_labels(t: &CaseRun) -> Result<()> {
    for selector in [
        "a%3D%3D%3Db",
        "%3Db",
        "a%20in%20b",
        "a%20in%20(",
        "a%3Db%20c",
        "A%2FB%2FC%3Dd",
    ] {
        page(t, &format!("labelSelector={selector}"))
            .await?
            .refused(400, "BadRequest")?;
    }
    Ok(())
}

async fn fields(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({ "color": "red" })).await?;
    t.new_widget("b", json!({})).await?;
    let selectors: [(&str, &[&str]); 5] = [
        ("metadata.name%3Da", &["a"]),
        ("metadata.name%21%3Da", &["b"]),
        ("spec.color%3Dred", &["a"]),
        ("spec.color%3D", &["b"]),
        ("spec.color%3Dred,metadata.name%3Db", &[]),
    ];
    for (selector, names) in selectors {
        let list = page(t, &format!("fieldSelector={selector}")).await?.code(200)?;
        ensure!(list.names() == names, "{selector}: {:?}", list.names());
    }
    Ok(())
}

async fn unknown_fields(t: &CaseRun) -> Result<()> {
    for selector in ["spec.replicas%3D1", "status.phase%3DUp", "nonsense", "a%3Db%3Dc"] {
        page(t, &format!("fieldSelector={selector}"))
            .await?
            .refused(400, "BadRequest")?;
    }
    t.get(&format!("{}?fieldSelector=data%3Dx", t.core("configmaps")))
        .await?
        .code(400)?;
    Ok(())
}

async fn built_in_fields(t: &CaseRun) -> Result<()> {
    let secret = json!({ "metadata": { "name": "a" }, "type": "example.com/own" });
    t.create(&t.core("secrets"), &secret).await?.code(201)?;
    let found = t
        .get(&format!("{}?fieldSelector=type%3Dexample.com/own", t.core("secrets")))
        .await?;
    ensure!(found.names() == ["a"], "{:?}", found.names());
    let pod = json!({ "metadata": { "name": "a" }, "spec": {
        "nodeName": "n1", "containers": [{ "name": "c", "image": "registry.example.com/c:1" }],
    } });
    t.create(&t.core("pods"), &pod).await?.code(201)?;
    for (selector, count) in [
        ("spec.nodeName%3Dn1", 1),
        ("status.phase%3DPending", 1),
        ("status.phase%3DRunning", 0),
    ] {
        let found = t
            .get(&format!("{}?fieldSelector={selector}", t.core("pods")))
            .await?
            .code(200)?;
        ensure!(found.names().len() == count, "{selector}: {:?}", found.names());
    }
    Ok(())
}

async fn bad_limit(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    for limit in ["abc", "-1", "0"] {
        page(t, &format!("limit={limit}")).await?;
    }
    Ok(())
}
