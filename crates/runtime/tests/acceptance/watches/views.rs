//! Views of a kind: shared watches, metadata only, and objects that do not fit.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use aplomb::informer::ReflectorTiming;
use aplomb::tasks::Tasks;
use aplomb::telemetry::Telemetry;
use aplomb::{InformerSet, MetaRef, MetadataOnly, View, ViewMeta};
use aplomb_simulation::Cluster;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::rbac::v1::Role;
use kube::api::PostParams;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{SECOND, Setup, create, in_default, key, maps, touch, world};

#[test]
fn equal_watches_share_one_informer() {
    let run = world().run(|cluster| async move {
        let setup = Setup::start_with(&cluster, ReflectorTiming::default(), |hub| {
            let again = hub.informer::<ConfigMap>(in_default());
            again.index("none", |_| Vec::new());
            drop(hub.informer::<MetadataOnly<ConfigMap>>(in_default()));
        });
        setup.hub.wait_until_synced(setup.begin + SECOND).await.unwrap();
        assert_eq!(setup.hub.states().len(), 2, "another view is another watch");
    });
    let lists = |line: &&String| line.contains("GET") && line.contains("configmaps");
    let lists: Vec<_> = run
        .trace
        .iter()
        .filter(lists)
        .filter(|line| !line.contains("watch"))
        .collect();
    assert_eq!(
        lists.iter().filter(|line| line.contains("limit=500")).count(),
        2,
        "{lists:?}"
    );
}

#[test]
fn a_view_of_metadata_follows_like_any_other() {
    world().run(|cluster| async move {
        let hub = InformerSet::new(cluster.client("operator"), Telemetry::default());
        let watch = hub.informer::<MetadataOnly<ConfigMap, BTreeMap<String, String>>>(in_default());
        let _tasks = hub.start(&Tasks::on_runtime());
        hub.wait_until_synced(Instant::now() + SECOND).await.unwrap();
        let map = json!({ "metadata": { "name": "a", "labels": { "x": "y" } } });
        let map = serde_json::from_value(map).unwrap();
        maps(&cluster).create(&PostParams::default(), &map).await.unwrap();
        sleep(SECOND).await;
        let seen = watch.cache().get(&key("a")).expect("the object is cached");
        assert_eq!(seen.metadata.labels["x"], "y");
    });
}

/// Fits only config maps whose `n` is a single character.
#[derive(serde::Deserialize)]
struct Letter {
    metadata: ViewMeta,
    #[serde(default)]
    data: BTreeMap<String, char>,
}

impl View for Letter {
    type Kind = ConfigMap;
    fn meta(&self) -> MetaRef<'_> {
        self.metadata.as_ref()
    }
}

#[test]
fn undecodable_object_is_reported_and_does_not_stop_the_watch() {
    world().run(|cluster| async move {
        create(&cluster, "a").await;
        touch(&cluster, "a", 12345).await;
        let hub = InformerSet::new(cluster.client("operator"), Telemetry::default());
        let watch = hub.informer::<Letter>(in_default());
        let told = Arc::new(Mutex::new(Vec::new()));
        let log = told.clone();
        watch.listen(move |event| log.lock().unwrap().push(format!("{event:?}")));
        let _tasks = hub.start(&Tasks::on_runtime());
        hub.wait_until_synced(Instant::now() + SECOND).await.unwrap();
        let why = watch.cache().unreadable(&key("a")).expect("the object does not fit");
        assert!(!why.contains("12345"), "{why}");
        create(&cluster, "b").await;
        touch(&cluster, "a", 7).await;
        sleep(SECOND).await;
        let expected = ["Unreadable(default/a)", "Added(default/b)", "Added(default/a)"];
        let told = told.lock().unwrap();
        let about = |line: &&String| !line.contains("kube-root-ca");
        assert_eq!(told.iter().filter(about).cloned().collect::<Vec<_>>(), expected);
        assert_eq!(watch.cache().get(&key("a")).unwrap().data["n"], '7');
    });
}

/// Declares its lists like every view, without handling of null.
#[derive(serde::Deserialize)]
struct Slice {
    metadata: ViewMeta,
    #[serde(default)]
    endpoints: Vec<serde_json::Value>,
    #[serde(default)]
    ports: Vec<serde_json::Value>,
}

impl View for Slice {
    type Kind = EndpointSlice;
    fn meta(&self) -> MetaRef<'_> {
        self.metadata.as_ref()
    }
}

/// The same of a Role.
#[derive(serde::Deserialize)]
struct Rules {
    metadata: ViewMeta,
    #[serde(default)]
    rules: Vec<serde_json::Value>,
}

impl View for Rules {
    type Kind = Role;
    fn meta(&self) -> MetaRef<'_> {
        self.metadata.as_ref()
    }
}

async fn send(cluster: &Cluster, method: &str, path: &str, body: &serde_json::Value) -> String {
    let request = http::Request::builder().method(method).uri(path);
    let request = request.header("content-type", "application/json");
    let request = request.body(body.to_string().into_bytes()).unwrap();
    let client = cluster.client("user");
    client.request_text(request).await.expect("it is accepted")
}

#[test]
fn a_list_that_is_null_is_an_empty_one() {
    const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    world().run(|cluster| async move {
        let slice = |name: &str, endpoints: serde_json::Value| {
            json!({ "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": { "name": name }, "addressType": "IPv4", "endpoints": endpoints,
                "ports": null })
        };
        // As the controller of a stock cluster writes it for a Service without pods.
        let written = send(&cluster, "POST", SLICES, &slice("before", json!(null))).await;
        assert!(written.contains("\"endpoints\":null"), "{written}");
        let role = json!({ "metadata": { "name": "none" }, "rules": null });
        let written = send(&cluster, "POST", ROLES, &role).await;
        assert!(written.contains("\"rules\":null"), "{written}");
        let hub = InformerSet::new(cluster.client("operator"), Telemetry::default());
        let (slices, roles) = (hub.informer::<Slice>(in_default()), hub.informer::<Rules>(in_default()));
        let _tasks = hub.start(&Tasks::on_runtime());
        hub.wait_until_synced(Instant::now() + SECOND).await.unwrap();
        let endpoints = json!([{ "addresses": ["192.0.2.1"] }]);
        send(&cluster, "POST", SLICES, &slice("after", endpoints)).await;
        sleep(SECOND).await;
        let count = |name: &str| slices.cache().get(&key(name)).map(|it| it.endpoints.len());
        assert_eq!((count("before"), count("after")), (Some(0), Some(1)));
        // The last pod is deleted.
        let gone = slice("after", json!([]));
        send(&cluster, "PUT", &format!("{SLICES}/after"), &gone).await;
        sleep(SECOND).await;
        assert_eq!(count("after"), Some(0));
        let role = roles.cache().get(&key("none")).map(|it| it.rules.len());
        assert_eq!(role, Some(0));
        assert!(slices.cache().get(&key("after")).unwrap().ports.is_empty());
    });
}
