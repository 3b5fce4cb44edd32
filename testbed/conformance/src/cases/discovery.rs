//! Discovery, OpenAPI, and the other shapes of an answer: Table and PartialObjectMetadata.

use anyhow::{Context, Result, ensure};
use kube::api::{Api, DynamicObject, ListParams};
use kube::discovery::{Discovery, Scope, verbs};
use serde_json::{Value, json};

use crate::case::Case;
use crate::case_run::CaseRun;
use crate::verbs::config_map;

pub(super) const CASES: &[Case] = &[
    Case::new("discovery/the-core-versions", |t| Box::pin(core(t))),
    Case::new("discovery/a-group-of-custom-resources", |t| Box::pin(group(t))),
    Case::new("discovery/the-resources-of-a-group", |t| Box::pin(resources(t))),
    Case::new("discovery/built-in-resources", |t| Box::pin(built_in(t))),
    Case::new("discovery/aggregated", |t| Box::pin(aggregated(t))),
    Case::new("discovery/aggregated-has-an-etag", |t| Box::pin(etag(t))),
    Case::new("discovery/kube-finds-custom-resources", |t| Box::pin(by_kube(t))),
    Case::new("discovery/kube-finds-them-aggregated", |t| {
        Box::pin(by_kube_aggregated(t))
    }),
    Case::new("discovery/open-api-lists-groups", |t| Box::pin(open_api(t))),
    Case::new("discovery/open-api-of-custom-resources", |t| {
        Box::pin(open_api_group(t))
    }),
    Case::new("discovery/a-table-of-custom-resources", |t| Box::pin(table(t))),
    Case::new("discovery/a-table-of-built-in-kinds", |t| Box::pin(built_in_tables(t))),
    Case::new("discovery/a-table-without-objects", |t| Box::pin(table_objects(t))),
    Case::new("discovery/a-watch-of-tables", |t| Box::pin(table_watch(t))),
    Case::new("discovery/metadata-alone", |t| Box::pin(metadata(t))),
    Case::new("discovery/a-watch-of-metadata", |t| Box::pin(metadata_watch(t))),
];

const GROUP: &str = "/apis/conformance.example.com";

async fn core(t: &CaseRun) -> Result<()> {
    let answer = t.quiet("GET", "/api", &[], "").await?.code(200)?;
    answer.has("/kind", "APIVersions")?.has("/versions", json!(["v1"]))?;
    Ok(())
}

async fn group(t: &CaseRun) -> Result<()> {
    t.get(GROUP).await?.code(200)?.has("/kind", "APIGroup")?;
    let all = t
        .quiet("GET", "/apis", &[], "")
        .await?
        .code(200)?
        .has("/kind", "APIGroupList")?;
    let groups = all.at("/groups");
    let ours = groups.as_array().into_iter().flatten();
    let ours = ours.filter(|group| group["name"] == "conformance.example.com");
    let ours: Vec<Value> = ours.cloned().collect();
    ensure!(ours.len() == 1, "{ours:?}");
    t.note("group", json!(ours)).await;
    Ok(())
}

async fn resources(t: &CaseRun) -> Result<()> {
    for version in ["v1", "v1beta1"] {
        let path = format!("{GROUP}/{version}");
        let list = t.quiet("GET", &path, &[], "").await?.code(200)?;
        let list = list.has("/kind", "APIResourceList")?;
        // The real server lists custom resources in the order of a Go map: another one each time.
        let mut resources = list.at("/resources").as_array().cloned().unwrap_or_default();
        resources.sort_by_key(|one| one["name"].as_str().unwrap_or_default().to_owned());
        t.note(&path, resources).await;
    }
    Ok(())
}

/// The kinds the box serves; the real server has more, which are not compared.
const BUILT_IN: &[(&str, &str)] = &[
    (
        "/api/v1",
        "bindings configmaps endpoints events namespaces namespaces/finalize namespaces/status nodes nodes/status pods pods/status secrets serviceaccounts services services/status",
    ),
    (
        "/apis/apps/v1",
        "deployments deployments/status replicasets replicasets/status",
    ),
    ("/apis/coordination.k8s.io/v1", "leases"),
    ("/apis/discovery.k8s.io/v1", "endpointslices"),
    ("/apis/events.k8s.io/v1", "events"),
    ("/apis/policy/v1", "poddisruptionbudgets poddisruptionbudgets/status"),
    ("/apis/networking.k8s.io/v1", "networkpolicies"),
    (
        "/apis/rbac.authorization.k8s.io/v1",
        "clusterrolebindings clusterroles rolebindings roles",
    ),
    (
        "/apis/apiextensions.k8s.io/v1",
        "customresourcedefinitions customresourcedefinitions/status",
    ),
    (
        "/apis/admissionregistration.k8s.io/v1",
        "validatingadmissionpolicies validatingadmissionpolicies/status validatingadmissionpolicybindings",
    ),
    ("/apis/authentication.k8s.io/v1", "tokenreviews selfsubjectreviews"),
    (
        "/apis/authorization.k8s.io/v1",
        "subjectaccessreviews selfsubjectaccessreviews localsubjectaccessreviews",
    ),
];

async fn built_in(t: &CaseRun) -> Result<()> {
    for (path, names) in BUILT_IN {
        let list = t.quiet("GET", path, &[], "").await?.code(200)?;
        let all = list.at("/resources");
        for name in names.split(' ') {
            let found = all.as_array().into_iter().flatten().find(|one| one["name"] == *name);
            // The box need not serve these two; if it does, then as the real server does.
            if matches!(name, "bindings" | "endpoints") {
                continue;
            }
            let mut found = found.cloned().with_context(|| format!("{path} lacks {name}"))?;
            found.as_object_mut().map(|one| one.remove("storageVersionHash"));
            t.note(&format!("{path}/{name}"), found).await;
        }
    }
    Ok(())
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

async fn aggregated(t: &CaseRun) -> Result<()> {
    for path in ["/api", "/apis"] {
        let list = t.quiet("GET", path, &[("accept", AGGREGATED)], "").await?.code(200)?;
        let list = list.has("/kind", "APIGroupDiscoveryList")?;
        let list = list.has("/apiVersion", "apidiscovery.k8s.io/v2")?;
        t.note(path, list.content_type.clone()).await;
        let items = list.at("/items");
        let ours = items.as_array().into_iter().flatten();
        for item in ours.filter(|item| item["metadata"]["name"] == "conformance.example.com") {
            t.note("group", item.clone()).await;
        }
    }
    Ok(())
}

async fn etag(t: &CaseRun) -> Result<()> {
    let request = http::Request::get("/apis").header("accept", AGGREGATED);
    let response = t.client.send(request.body(kube::client::Body::empty())?).await?;
    let etag = response.headers().get("etag").context("no ETag")?.to_str()?.to_owned();
    ensure!(etag.starts_with('"') && etag.len() > 20, "{etag}");
    let headers = [("accept", AGGREGATED), ("if-none-match", etag.as_str())];
    let again = t.quiet("GET", "/apis", &headers, "").await?;
    ensure!([200, 304].contains(&again.code), "{}", again.code);
    Ok(())
}

async fn found(t: &CaseRun, discovery: &Discovery) -> Result<()> {
    let kind = kube::api::GroupVersionKind::gvk("conformance.example.com", "v1", "Widget");
    let (resource, capabilities) = discovery.resolve_gvk(&kind).context("Widget is not found")?;
    ensure!(resource.plural == "widgets", "{resource:?}");
    ensure!(capabilities.scope == Scope::Namespaced, "{capabilities:?}");
    for verb in [verbs::CREATE, verbs::DELETE, verbs::WATCH, verbs::PATCH] {
        ensure!(capabilities.supports_operation(verb), "{verb}");
    }
    t.new_widget("a", json!({})).await?;
    let api: Api<DynamicObject> = Api::namespaced_with(t.client.clone(), &t.namespace, &resource);
    let list = api.list(&ListParams::default()).await?;
    ensure!(list.items.len() == 1, "{}", list.items.len());
    Ok(())
}

async fn by_kube(t: &CaseRun) -> Result<()> {
    let filter = ["conformance.example.com"];
    found(t, &Discovery::new(t.client.clone()).filter(&filter).run().await?).await
}

async fn by_kube_aggregated(t: &CaseRun) -> Result<()> {
    let filter = ["conformance.example.com"];
    found(
        t,
        &Discovery::new(t.client.clone())
            .filter(&filter)
            .run_aggregated()
            .await?,
    )
    .await
}

async fn open_api(t: &CaseRun) -> Result<()> {
    let root = t.quiet("GET", "/openapi/v3", &[], "").await?.code(200)?;
    for path in ["api/v1", "apis/apps/v1", "apis/conformance.example.com/v1"] {
        let url = root.at("/paths")[path]["serverRelativeURL"].clone();
        let url = url.as_str().with_context(|| format!("{path} is not listed"))?;
        ensure!(url.starts_with(&format!("/openapi/v3/{path}?hash=")), "{url}");
    }
    Ok(())
}

async fn open_api_group(t: &CaseRun) -> Result<()> {
    let path = "/openapi/v3/apis/conformance.example.com/v1";
    let document = t.quiet("GET", path, &[], "").await?.code(200)?;
    let schemas = document.at("/components/schemas");
    let widget = &schemas["com.example.conformance.v1.Widget"];
    let kinds = &widget["x-kubernetes-group-version-kind"];
    ensure!(kinds[0]["kind"] == "Widget", "{kinds}");
    t.note("spec", widget["properties"]["spec"].clone()).await;
    Ok(())
}

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

async fn as_table(t: &CaseRun, path: &str) -> Result<Value> {
    let table = t.quiet("GET", path, &[("accept", TABLE)], "").await?.code(200)?;
    let mut table = table.has("/kind", "Table")?.has("/apiVersion", "meta.k8s.io/v1")?.body;
    let columns = table["columnDefinitions"].as_array().cloned().unwrap_or_default();
    let age = columns.iter().position(|column| column["name"] == "Age");
    // Ages depend on the moment; everything else is compared.
    for row in table["rows"].as_array_mut().into_iter().flatten() {
        if let Some(age) = age {
            ensure!(row["cells"][age].is_string(), "{row}");
            row["cells"][age] = json!("<age>");
        }
    }
    if table["metadata"].get("resourceVersion").is_some() {
        table["metadata"]["resourceVersion"] = json!("<list>");
    }
    Ok(table)
}

async fn table(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({ "color": "red" })).await?;
    t.new_widget("b", json!({})).await?;
    let status = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
    t.merge(&format!("{}/status", t.widget("b")), &status)
        .await?
        .code(200)?;
    for path in [t.widgets(), t.widget("a")] {
        let table = as_table(t, &path).await?;
        let names: Vec<_> = table["columnDefinitions"].as_array().into_iter().flatten().collect();
        let names: Vec<_> = names.iter().filter_map(|column| column["name"].as_str()).collect();
        ensure!(names == ["Name", "Color", "Replicas", "Ready", "Age"], "{names:?}");
        t.note("table", table).await;
    }
    Ok(())
}

async fn built_in_tables(t: &CaseRun) -> Result<()> {
    for (path, object) in super::samples::all(t) {
        t.create(&path, &object).await?.code(201)?;
        let table = as_table(t, &path).await?;
        t.note(&path, table).await;
    }
    Ok(())
}

async fn table_objects(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    for include in ["None", "Metadata", "Object"] {
        let table = as_table(t, &format!("{}?includeObject={include}", t.widgets())).await?;
        t.note(include, table).await;
    }
    let path = format!("{}?includeObject=Nonsense", t.widgets());
    t.send("GET", &path, &[("accept", TABLE)], "").await?.code(400)?;
    Ok(())
}

async fn table_watch(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    let mut watch = t.watch_as(&format!("{}?timeoutSeconds=2", t.widgets()), TABLE).await?;
    let first = watch.next_quietly().await?.context("ended")?;
    ensure!(first.object["kind"] == "Table", "{}", first.object);
    let columns = &first.object["columnDefinitions"];
    ensure!(
        columns.as_array().is_some_and(|columns| columns.len() == 5),
        "{columns}"
    );
    t.new_widget("b", json!({})).await?;
    let second = watch.next_quietly().await?.context("ended")?;
    // Only the first event describes the columns.
    t.note("columns", second.object["columnDefinitions"].clone()).await;
    Ok(())
}

const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const PARTIAL_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

async fn metadata(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({ "color": "red" })).await?;
    let one = t
        .send("GET", &t.widget("a"), &[("accept", PARTIAL)], "")
        .await?
        .code(200)?;
    one.has("/kind", "PartialObjectMetadata")?.lacks("/spec")?;
    let list = t
        .send("GET", &t.widgets(), &[("accept", PARTIAL_LIST)], "")
        .await?
        .code(200)?;
    list.has("/kind", "PartialObjectMetadataList")?.lacks("/items/0/spec")?;
    t.create(&t.core("configmaps"), &config_map("a", json!({ "k": "v" })))
        .await?
        .code(201)?;
    let list = t
        .send("GET", &t.core("configmaps"), &[("accept", PARTIAL_LIST)], "")
        .await?;
    list.code(200)?.lacks("/items/0/data")?;
    Ok(())
}

async fn metadata_watch(t: &CaseRun) -> Result<()> {
    let path = format!("{}?timeoutSeconds=5", t.widgets());
    let mut watch = t.watch_as(&path, PARTIAL).await?;
    t.new_widget("a", json!({ "color": "red" })).await?;
    let event = watch.expect("ADDED", "a").await?;
    ensure!(event.object["kind"] == "PartialObjectMetadata", "{}", event.object);
    ensure!(event.object.get("spec").is_none(), "{}", event.object);
    Ok(())
}
