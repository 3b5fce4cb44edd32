//! `aplomb crds --apply`, the real binary, on `aplomb box`: what it installs, and what it leaves unchanged.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use aplomb_api::gateway_api::BUNDLE_VERSION;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use serde_json::json;

const APLOMB: &str = env!("CARGO_BIN_EXE_aplomb");
const ROUTES: &str = "httproutes.gateway.networking.k8s.io";

/// A box that ends with the test.
struct Box {
    process: Child,
    dir: tempfile::TempDir,
}

impl Box {
    fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let kubeconfig = dir.path().join("kubeconfig");
        let mut process = Command::new(APLOMB)
            .args(["box", "--kubeconfig"])
            .arg(&kubeconfig)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the box starts");
        let said = process.stdout.take().expect("its output");
        let mut line = String::new();
        BufReader::new(said).read_line(&mut line).expect("a line");
        assert!(line.starts_with("ready "), "{line}");
        Self { process, dir }
    }

    fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    fn apply(&self, flags: &[&str]) -> String {
        let output = apply(&self.kubeconfig(), flags);
        let (said, wrong) = (output.stdout, output.stderr);
        let wrong = String::from_utf8_lossy(&wrong);
        assert_eq!(output.status.code(), Some(0), "{wrong}");
        String::from_utf8(said).expect("text")
    }

    async fn crds(&self) -> Api<CustomResourceDefinition> {
        let read = Kubeconfig::read_from(self.kubeconfig()).expect("a kubeconfig");
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(read, &options).await;
        Api::all(Client::try_from(config.expect("a context")).expect("a client"))
    }
}

impl Drop for Box {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn apply(kubeconfig: &std::path::Path, flags: &[&str]) -> Output {
    Command::new(APLOMB)
        .args(["crds", "--apply", "--kubeconfig"])
        .arg(kubeconfig)
        .args(flags)
        .output()
        .expect("it runs")
}

/// Changes the installed CRD to another release.
async fn set_version(crds: &Api<CustomResourceDefinition>, version: &str) {
    let patch = json!({ "metadata": { "annotations": { BUNDLE_VERSION: version } } });
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    let patched = crds.patch(ROUTES, &params, &patch).await;
    patched.expect("it can be changed");
}

#[tokio::test]
async fn a_newer_gateway_api_is_kept() {
    install_crypto_provider();
    let server = Box::start();
    let first = server.apply(&[]);
    let own = aplomb_api::definitions().len();
    assert_eq!(first.lines().count(), own + 3, "{first}");
    assert!(first.contains("httpproxies.aplomb.dev applied"), "{first}");
    assert!(first.contains(&format!("{ROUTES} installed, version v")), "{first}");
    let crds = server.crds().await;
    let before = crds.get(ROUTES).await.expect("installed");
    let again = server.apply(&[]);
    assert!(again.contains(&format!("{ROUTES} unchanged: version v")), "{again}");
    let after = crds.get(ROUTES).await.expect("still there");
    assert_eq!(after.resource_version(), before.resource_version());

    set_version(&crds, "v99.0.0").await;
    let told = server.apply(&["gateway-api"]);
    assert_eq!(told.lines().count(), 3, "{told}");
    assert!(told.contains("version v99.0.0 is newer than v"), "{told}");
    let kept = crds.get(ROUTES).await.expect("still there");
    assert_eq!(kept.annotations()[BUNDLE_VERSION], "v99.0.0");

    set_version(&crds, "v1.0.0").await;
    let told = server.apply(&["gateway-api"]);
    assert!(
        told.contains(&format!("{ROUTES} upgraded from version v1.0.0 to v")),
        "{told}"
    );
}

#[tokio::test]
async fn the_gateway_api_is_left_out_when_asked_to() {
    install_crypto_provider();
    let server = Box::start();
    let told = server.apply(&["--without-gateway-api"]);
    assert_eq!(told.lines().count(), aplomb_api::definitions().len(), "{told}");
    let routes = server.crds().await.get_opt(ROUTES).await;
    assert!(routes.expect("a response").is_none());
}

#[test]
fn a_cluster_that_is_not_there_ends_it_with_2() {
    let output = apply(std::path::Path::new("/no/such/kubeconfig"), &[]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("--kubeconfig /no/such/kubeconfig"), "{said}");
}

fn install_crypto_provider() {
    // A second test of the same process finds it installed.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
}
