//! An upgrade from an older release to this one under load, one process after the other.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::time::Instant;

use crate::helm::SYSTEM;
use crate::old_chart::{NEW_FIELD, OLD_LABEL, OldChart};
use crate::rights::Account;
use crate::stage::Stage;
use crate::traffic::Traffic;
use crate::workloads::{self, CODER, HOSTNAME, PROVISIONER, TENANT_NAMESPACE, TUNNEL, WorkloadSnapshot};

const IMAGE: &str = "image.repository=registry.example.com/aplomb";
const OPERATORS: [&str; 3] = ["tunnel", "coder", "egress"];
/// Kinds with statuses that change when gateways start and stop, as docs/install.md describes.
const CHECKED_KINDS: [&str; 4] = ["HTTPProxy", "Connector", "Gateway", "HTTPRoute"];

pub(crate) async fn install_old_chart(stage: &mut Stage) -> Result<()> {
    let older = OldChart::new()?;
    let crds = older.chart("aplomb-crds")?;
    let chart = older.chart("aplomb")?;
    let into = ["--namespace", SYSTEM, "--create-namespace"];
    stage.helm(&[&["install", "aplomb-crds", &crds][..], &into].concat())?;
    stage.kubectl(&["wait", "--for=condition=Established", "crd", "--all"])?;
    let set = ["--set", IMAGE];
    stage.helm(&[&["install", "aplomb", &chart][..], &into, &set].concat())?;
    ensure!(!knows_new_field(stage)?, "the older definition has the new field");
    ensure!(has_old_label(stage)?, "the older release has no older label");
    stage.start_simulators().await?;
    for word in OPERATORS {
        let name = format!("{word}-one");
        stage.start_operator(word, &name, SYSTEM, &[]).await?;
    }
    for name in ["gateway-one", "gateway-two"] {
        stage.start_gateway(name).await?;
    }
    workloads::create_tunnel(stage)?;
    workloads::create_egress(stage).await?;
    stage.kubectl(&["create", "namespace", CODER])?;
    workloads::create_coder(stage, CODER)
}

/// Whether the CRD has the field that is new in this release.
fn knows_new_field(stage: &Stage) -> Result<bool> {
    let path =
        format!("jsonpath={{.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.{NEW_FIELD}.type}}");
    let found = stage.kubectl(&["get", "crd", "httpproxies.aplomb.dev", "-o", &path])?;
    Ok(!found.is_empty())
}

/// Whether the release's objects carry the older label.
fn has_old_label(stage: &Stage) -> Result<bool> {
    let list = ["get", "deployments", "-n", SYSTEM, "-o", "name", "-l"];
    let found = stage.kubectl(&[&list[..], &[OLD_LABEL]].concat())?;
    Ok(!found.trim().is_empty())
}

pub(crate) async fn upgrade(stage: &mut Stage) -> Result<()> {
    let began = Instant::now();
    let before = workloads::snapshot_objects(stage)?;
    let (moved, keys) = read_outside_objects(stage).await?;
    let traffic = Traffic::start(&stage.endpoints, HOSTNAME)?;
    let into = ["--namespace", SYSTEM];
    stage.helm(&[&["upgrade", "aplomb-crds", "charts/aplomb-crds"][..], &into].concat())?;
    let set = ["--set", IMAGE];
    stage.helm(&[&["upgrade", "aplomb", "charts/aplomb"][..], &into, &set].concat())?;
    ensure!(knows_new_field(stage)?, "the definition lacks the new field");
    ensure!(!has_old_label(stage)?, "the older label is still there");
    for word in OPERATORS {
        replace_processes(stage, word).await?;
    }
    for (old, new) in [("gateway-one", "gateway-three"), ("gateway-two", "gateway-four")] {
        stage.start_gateway(new).await?;
        stage.stop_process(old)?;
    }
    for (namespace, object) in [
        (TENANT_NAMESPACE, format!("httpproxy/{TUNNEL}")),
        (CODER, format!("coderprovisioner/{CODER}-{PROVISIONER}")),
        ("", "stableegress/web".to_owned()),
    ] {
        stage.wait(namespace, &object, "condition=Ready")?;
    }
    traffic.finish()?;
    println!(
        "        {:.1?} from the first helm upgrade to the last new gateway",
        began.elapsed()
    );
    let now = read_outside_objects(stage).await?;
    ensure!((&moved, &keys) == (&now.0, &now.1), "{moved} {keys} became {now:?}");
    compare_snapshots(&before, &workloads::snapshot_objects(stage)?)
}

/// Starts a new replica and waits for it before the old one ends, as in a rolling update.
async fn replace_processes(stage: &mut Stage, word: &str) -> Result<()> {
    let (old, new) = (format!("{word}-one"), format!("{word}-two"));
    stage.start_operator(word, &new, SYSTEM, &[]).await?;
    stage.stop_process(&old)?;
    let lease = format!("aplomb-{word}");
    let path = "jsonpath={.spec.holderIdentity}";
    let leads = async || {
        let holder = stage.kubectl(&["get", "lease", &lease, "-n", SYSTEM, "-o", path]);
        holder.is_ok_and(|holder| holder.contains(&new))
    };
    stage.wait_until(&format!("{new} leads"), leads).await
}

/// The state of the other systems: the holder of the address, and the keys.
async fn read_outside_objects(stage: &Stage) -> Result<(Value, Value)> {
    let state = |text: String| serde_json::from_str::<Value>(&text);
    let hetzner = state(stage.get(&format!("{}/_sim/state", stage.hetzner)).await?)?;
    let coderd = state(stage.get(&format!("{}/_sim/state", stage.coderd)).await?)?;
    let keys = coderd["keys"].as_array().context("no keys")?;
    let names = keys.iter().map(|key| key["name"].clone()).collect();
    Ok((hetzner["floating_ips"][0]["server"].clone(), names))
}

/// No object was deleted, created or changed in its spec; and only the documented kinds were written.
fn compare_snapshots(
    before: &BTreeMap<String, WorkloadSnapshot>,
    after: &BTreeMap<String, WorkloadSnapshot>,
) -> Result<()> {
    let names = |picture: &BTreeMap<String, WorkloadSnapshot>| picture.keys().cloned().collect::<Vec<_>>();
    ensure!(
        names(before) == names(after),
        "{:?} became {:?}",
        names(before),
        names(after)
    );
    let mut written = Vec::new();
    for (name, was) in before {
        let is = &after[name];
        let same = was.uid == is.uid && was.generation == is.generation;
        ensure!(same, "{name} was changed: {was:?} became {is:?}");
        if was.version != is.version {
            written.push(name.as_str());
        }
    }
    println!("        {} objects, written: {written:?}", before.len());
    let kind = |name: &&&str| !CHECKED_KINDS.contains(&name.split(' ').next().unwrap_or_default());
    let wrong: Vec<_> = written.iter().filter(kind).collect();
    ensure!(wrong.is_empty(), "rewritten: {wrong:?}");
    Ok(())
}

/// The same chart with a Role in one namespace: everything works without forbidden calls. The operator for all
/// namespaces is stopped, because two would reconcile the same objects.
pub(crate) async fn check_namespaced_install(stage: &mut Stage) -> Result<()> {
    let (team, system) = ("team-a", "team-a-system");
    let only = [
        "operators.tunnel.enabled=false",
        "operators.egress.enabled=false",
        "gateway.enabled=false",
        "viewRole.enabled=false",
        "operators.coder.watchNamespace=team-a",
        IMAGE,
    ];
    stage.kubectl(&["create", "namespace", team])?;
    let into = ["--namespace", system, "--create-namespace"];
    let mut args = [&["install", "team-a", "charts/aplomb"][..], &into].concat();
    args.extend(only.iter().flat_map(|value| ["--set", value]));
    stage.helm(&args)?;
    let watch = ["--watch-namespace", team];
    stage.start_operator("coder", "coder-team", system, &watch).await?;
    workloads::create_coder(stage, team)?;
    let object = format!("coderprovisioner/{team}-{PROVISIONER}");
    stage.kubectl(&["delete", "-n", team, &object, "--timeout=60s"])?;
    let missing = Account::of(&stage.plane, system, "aplomb-coder")?.missing();
    ensure!(missing.is_empty(), "{missing:?}");
    stage.stop_process("coder-team")?;
    stage.helm(&["uninstall", "team-a", "--namespace", system])?;
    stage.kubectl(&["delete", "namespace", team, system, "--timeout=60s"])?;
    Ok(())
}
