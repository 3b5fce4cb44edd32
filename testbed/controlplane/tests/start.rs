//! Starts the real thing and looks for what it leaves behind.

use std::time::Duration;

use aplomb_controlplane::{Binaries, ControlPlane, Options};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::api::{ListParams, ObjectMeta, PostParams};
use tokio::time::Instant;

/// Five times the promise: other tests may be compiling on the same two cores.
const READY_LIMIT: Duration = Duration::from_secs(75);

fn config_map() -> ConfigMap {
    let name = Some("here".to_owned());
    let metadata = ObjectMeta {
        name,
        ..ObjectMeta::default()
    };
    ConfigMap {
        metadata,
        ..ConfigMap::default()
    }
}

#[tokio::test]
async fn starts_serves_and_leaves_nothing_behind() {
    if !Binaries::available().expect("the control plane can be had") {
        return;
    }
    Binaries::find_or_build().expect("the programs are there");
    let started = Instant::now();
    let mut plane = ControlPlane::start(Options {
        audit_log: true,
        ..Options::default()
    })
    .await
    .expect("the control plane starts");
    assert!(started.elapsed() < READY_LIMIT, "took {:?}", started.elapsed());
    let client = plane.client().await.expect("a client");
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    maps.create(&PostParams::default(), &config_map())
        .await
        .expect("the admin may create");
    let restricted = plane.client_of(0, &plane.tokens().restricted).await.expect("a client");
    let refused = Api::<Namespace>::all(restricted).list(&ListParams::default()).await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 403));

    let second = plane.add_apiserver(&[]).await.expect("a second API server starts");
    let other = plane.client_of(second, &plane.tokens().admin).await.expect("a client");
    Api::<ConfigMap>::namespaced(other, "default")
        .get("here")
        .await
        .expect("one store");

    assert!(plane.is_running());
    assert!(plane.audit_log().exists());
    let dir = plane.kubeconfig_path().parent().expect("a directory").to_owned();
    drop(plane);
    assert!(!dir.exists(), "{} is left", dir.display());
    assert!(client.apiserver_version().await.is_err(), "something still serves");
}
