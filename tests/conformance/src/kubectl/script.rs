//! What a person does with kubectl, step by step.

use anyhow::{Context, Result};
use aplomb_controlplane::gateway_api_crds;

use super::session::Session;

const CRD: &str = include_str!("../fixtures/widgets.yaml");
const WIDGET: &str = include_str!("manifests/widget.yaml");
const BUILT_IN: &str = include_str!("manifests/built-in.yaml");
const GATEWAY: &str = include_str!("manifests/gateway.yaml");

/// Plays the whole script.
///
/// # Errors
/// When kubectl cannot be run, or a watch shows nothing.
pub async fn play(k: &mut Session) -> Result<()> {
    custom_resources(k).await?;
    reading(k).await?;
    changing(k).await?;
    server_side(k).await?;
    watching(k).await?;
    built_in_kinds(k).await?;
    deleting(k).await?;
    gateway_api(k).await
}

/// A Widget named `a` with other words in its spec.
fn widget(color: &str, replicas: u32) -> String {
    WIDGET
        .replace("color: red", &format!("color: {color}"))
        .replace("replicas: 2", &format!("replicas: {replicas}"))
}

async fn custom_resources(k: &mut Session) -> Result<()> {
    k.ok("create namespace demo", "").await?;
    k.ok("apply -f -", CRD).await?;
    k.ok(
        "wait --for=condition=Established crd/widgets.conformance.example.com --timeout=30s",
        "",
    )
    .await?;
    k.ok("apply -n demo -f -", WIDGET).await?;
    k.ok("apply -n demo -f -", WIDGET).await?;
    k.ok("apply -n demo -f -", &widget("blue", 3)).await?;
    // A field that is no longer in the manifest goes.
    k.ok(
        "apply -n demo -f -",
        &widget("blue", 3).replace("  mode: fast\n", ""),
    )
    .await?;
    k.ok("get widget a -n demo -o jsonpath={.spec}", "").await?;
    k.refused("apply -n demo -f -", &widget("blue", 300))
        .await?;
    k.refused("apply -n demo -f -", &WIDGET.replace("color", "colour"))
        .await?;
    k.refused("create -n demo -f -", WIDGET).await?;
    k.ok("apply -n demo --dry-run=server -f -", &widget("green", 4))
        .await
}

async fn reading(k: &mut Session) -> Result<()> {
    for line in [
        "get widgets -n demo",
        "get wd -n demo -o wide",
        "get widget a -n demo -o yaml",
        "get widget a -n demo -o json",
        "get widget a -n demo -o yaml --show-managed-fields",
        "get widgets -n demo -o name",
        "get widgets -A --no-headers",
        "get widgets -n demo -l tier=front",
        "get widgets -n demo -l tier=back",
        "get widgets -n demo --field-selector=metadata.name=a",
        "get widgets -n demo --show-labels",
        "get conformance -n demo",
        "get widgets -n demo --sort-by=.metadata.name",
        "get widgets -n demo --chunk-size=1",
        "get --raw /apis/conformance.example.com/v1/namespaces/demo/widgets?limit=0&labelSelector=none",
        "api-resources --api-group=conformance.example.com",
        "auth can-i create widgets -n demo",
        "get namespace demo -o yaml",
    ] {
        k.ok(line, "").await?;
    }
    k.refused("get widget missing -n demo", "").await?;
    k.refused("get unheard -n demo", "").await?;
    k.refused("get widgets -n demo --field-selector=spec.replicas=1", "")
        .await
}

async fn changing(k: &mut Session) -> Result<()> {
    for line in [
        r#"patch widget a -n demo --type=merge -p {"spec":{"color":"green"}}"#,
        r#"patch widget a -n demo --type=merge -p {"spec":{"color":"green"}}"#,
        r#"patch widget a -n demo --type=json -p [{"op":"replace","path":"/spec/replicas","value":7}]"#,
        "label widget a -n demo extra=yes",
        "label widget a -n demo extra=no --overwrite",
        "label widget a -n demo extra-",
        "annotate widget a -n demo note=text",
        "annotate widget a -n demo note=other --overwrite",
        "annotate widget a -n demo note-",
        r#"patch widget a -n demo --subresource=status --type=merge -p {"status":{"phase":"Up","conditions":[{"type":"Ready","status":"True"}]}}"#,
        "wait --for=condition=Ready widget/a -n demo --timeout=10s",
        "wait --for=jsonpath={.status.phase}=Up widget/a -n demo --timeout=10s",
        "get widget a -n demo --subresource=status",
        "get widget a -n demo -o wide",
    ] {
        k.ok(line, "").await?;
    }
    k.refused("label widget a -n demo tier=back", "").await?;
    k.refused(
        r#"patch widget a -n demo --type=json -p [{"op":"remove","path":"/spec/none"}]"#,
        "",
    )
    .await?;
    k.refused(r#"patch widget a -n demo -p {"spec":{"color":"pink"}}"#, "")
        .await?;
    k.refused(
        "wait --for=condition=Never widget/a -n demo --timeout=1s",
        "",
    )
    .await
}

async fn server_side(k: &mut Session) -> Result<()> {
    let one = WIDGET.replace("name: a", "name: shared");
    let two = one.replace("color: red", "color: blue");
    let line = "apply -n demo --server-side --field-manager=";
    k.ok(&format!("{line}one -f -"), &one).await?;
    k.ok(&format!("{line}one -f -"), &one).await?;
    k.refused(&format!("{line}two -f -"), &two).await?;
    k.ok(&format!("{line}two --force-conflicts -f -"), &two)
        .await?;
    k.ok(
        "get widget shared -n demo -o yaml --show-managed-fields",
        "",
    )
    .await?;
    k.refused(&format!("{line}one -f -"), &one).await?;
    // From client-side to server-side apply.
    k.ok("apply -n demo --server-side --force-conflicts -f -", WIDGET)
        .await?;
    k.ok("get widget a -n demo -o yaml --show-managed-fields", "")
        .await
}

async fn watching(k: &mut Session) -> Result<()> {
    let mut plain = k.begin("get widgets -n demo -w")?;
    plain.lines(3).await?;
    let mut events = k.begin("get widget a -n demo -w --output-watch-events")?;
    events.lines(2).await?;
    k.ok(
        r#"patch widget a -n demo --type=merge -p {"spec":{"color":"grey"}}"#,
        "",
    )
    .await?;
    plain.lines(1).await?;
    events.lines(1).await?;
    k.ok("delete widget shared -n demo", "").await?;
    plain.lines(1).await?;
    k.end(plain).await?;
    k.end(events).await
}

async fn built_in_kinds(k: &mut Session) -> Result<()> {
    k.ok("apply -n demo -f -", BUILT_IN).await?;
    for kind in [
        "configmaps",
        "secrets",
        "services",
        "serviceaccounts",
        "deployments",
        "pods",
        "leases",
        "endpointslices",
        "poddisruptionbudgets",
        "networkpolicies",
        "roles",
        "rolebindings",
    ] {
        k.ok(&format!("get {kind} -n demo"), "").await?;
        k.ok(&format!("get {kind} -n demo -o wide"), "").await?;
    }
    k.ok("get deployment web -n demo -o yaml", "").await?;
    k.ok("get service web -n demo -o yaml", "").await?;
    k.ok("label configmap settings -n demo a=b", "").await?;
    k.ok("annotate deployment web -n demo a=b", "").await?;
    k.ok(
        r#"patch configmap settings -n demo --type=merge -p {"data":{"more":"yes"}}"#,
        "",
    )
    .await?;
    k.ok("create configmap literal -n demo --from-literal=a=b", "")
        .await?;
    k.ok(
        "create secret generic literal -n demo --from-literal=a=b",
        "",
    )
    .await?;
    k.ok("get crd widgets.conformance.example.com", "").await?;
    k.refused(
        "apply -n demo -f -",
        "apiVersion: v1\nkind: Unheard\nmetadata: {name: a}\n",
    )
    .await
}

async fn deleting(k: &mut Session) -> Result<()> {
    k.ok("delete configmap literal -n demo", "").await?;
    k.refused("delete configmap literal -n demo", "").await?;
    k.ok("delete configmap literal -n demo --ignore-not-found", "")
        .await?;
    k.ok("delete secret literal -n demo --wait=false", "")
        .await?;
    k.ok("delete widget a -n demo --cascade=foreground", "")
        .await?;
    k.ok("wait --for=delete widget/a -n demo --timeout=20s", "")
        .await?;
    k.ok("apply -n demo -f -", WIDGET).await?;
    k.ok("delete -n demo -f -", WIDGET).await?;
    k.ok("delete widgets -n demo --all", "").await?;
    k.ok("delete namespace demo --timeout=60s", "").await?;
    k.refused("get namespace demo", "").await
}

async fn gateway_api(k: &mut Session) -> Result<()> {
    let dir = gateway_api_crds()?;
    let dir = dir
        .to_str()
        .context("the module cache is not UTF-8")?
        .to_owned();
    k.ok(&format!("apply --server-side -f {dir}"), "").await?;
    k.ok(&format!("apply --server-side -f {dir}"), "").await?;
    for name in [
        "gatewayclasses",
        "gateways",
        "httproutes",
        "grpcroutes",
        "referencegrants",
    ] {
        let crd = format!("crd/{name}.gateway.networking.k8s.io");
        k.ok(
            &format!("wait --for=condition=Established {crd} --timeout=30s"),
            "",
        )
        .await?;
    }
    k.ok("create namespace edge", "").await?;
    k.ok("apply -n edge -f -", GATEWAY).await?;
    k.ok("apply -n edge -f -", GATEWAY).await?;
    for kind in ["gatewayclasses", "gateways", "httproutes"] {
        k.ok(&format!("get {kind} -n edge"), "").await?;
        k.ok(&format!("get {kind} -n edge -o yaml"), "").await?;
    }
    k.refused(
        "apply -n edge -f -",
        &GATEWAY.replace("protocol: HTTP\n", "protocol: 5\n"),
    )
    .await?;
    k.refused(
        "apply -n edge -f -",
        &GATEWAY.replace("port: 80\n", "port: 0\n"),
    )
    .await?;
    k.ok("delete -n edge -f -", GATEWAY).await
}
