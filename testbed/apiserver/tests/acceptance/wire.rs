//! The box as its clients see it: kube's client in process and over TLS, permissions, audit log.

use std::io::Write;
use std::sync::{Arc, Mutex};

use aplomb_apiserver::audit::Log;
use aplomb_apiserver::auth::Tokens;
use aplomb_apiserver::call::User;
use aplomb_apiserver::http::{Service, admin};
use aplomb_apiserver::server::ApiServer;
use aplomb_apiserver::standalone::{StandaloneConfig, start};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ApiResource, DynamicObject, ListParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, Error, ResourceExt};
use serde_json::{Value, json};

fn config_map(name: &str) -> ConfigMap {
    let object = json!({ "metadata": { "name": name }, "data": { "a": "1" } });
    serde_json::from_value(object).expect("a ConfigMap")
}

fn user(name: &str) -> User {
    User {
        name: name.into(),
        uid: String::new(),
        groups: Vec::new(),
        ..User::default()
    }
}

fn dynamic(client: &Client, plural: &str, kind: &str, object: Value) -> (Api<DynamicObject>, DynamicObject) {
    let resource = ApiResource {
        group: "rbac.authorization.k8s.io".into(),
        version: "v1".into(),
        api_version: "rbac.authorization.k8s.io/v1".into(),
        kind: kind.into(),
        plural: plural.into(),
    };
    let api = Api::namespaced_with(client.clone(), "default", &resource);
    (api, serde_json::from_value(object).expect("an object"))
}

async fn grant(client: &Client, verbs: &[&str], resources: &[&str]) {
    let rules = json!([{ "verbs": verbs, "apiGroups": ["*"], "resources": resources }]);
    let role = json!({ "metadata": { "name": "r" }, "rules": rules });
    let (roles, role) = dynamic(client, "roles", "Role", role);
    roles.create(&PostParams::default(), &role).await.expect("a role");
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "metadata": { "name": "b" },
        "subjects": [{ "kind": "User", "apiGroup": group, "name": "alice" }],
        "roleRef": { "kind": "Role", "apiGroup": group, "name": "r" },
    });
    let (bindings, binding) = dynamic(client, "rolebindings", "RoleBinding", binding);
    bindings
        .create(&PostParams::default(), &binding)
        .await
        .expect("a binding");
}

fn refused<T: std::fmt::Debug>(result: Result<T, Error>) -> (u16, String) {
    match result {
        Err(Error::Api(status)) => (status.code, status.message),
        other => panic!("expected a refusal, not {other:?}"),
    }
}

#[tokio::test]
async fn a_client_creates_lists_and_watches_in_process() {
    let client = Service::new(ApiServer::builder().build()).client();
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let made = maps
        .create(&PostParams::default(), &config_map("a"))
        .await
        .expect("created");
    let list = maps.list(&ListParams::default()).await.expect("listed");
    assert_eq!(list.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["a"]);

    let version = made.resource_version().expect("a version");
    let mut events = maps
        .watch(&WatchParams::default(), &version)
        .await
        .expect("watched")
        .boxed();
    maps.create(&PostParams::default(), &config_map("b"))
        .await
        .expect("created");
    let event = events.try_next().await.expect("no error").expect("an event");
    assert!(matches!(event, WatchEvent::Added(map) if map.name_any() == "b"));
}

#[tokio::test]
async fn roles_and_bindings_decide_what_a_user_may_do() {
    let service = Service::new(ApiServer::builder().rbac(true).build());
    let alice = service.client_as(&user("alice"));
    let maps: Api<ConfigMap> = Api::default_namespaced(alice.clone());
    assert_eq!(
        refused(maps.list(&ListParams::default()).await),
        (
            403,
            "configmaps is forbidden: User \"alice\" cannot list resource \"configmaps\" in API \
             group \"\" in the namespace \"default\""
                .to_owned()
        )
    );
    grant(&service.client(), &["get", "list"], &["configmaps"]).await;
    assert!(maps.list(&ListParams::default()).await.is_ok());
    let everywhere: Api<ConfigMap> = Api::all(alice);
    let (code, message) = refused(everywhere.list(&ListParams::default()).await);
    assert_eq!(code, 403);
    assert!(message.ends_with("at the cluster scope"), "{message}");
}

#[tokio::test]
async fn nobody_grants_what_they_do_not_have() {
    let service = Service::new(ApiServer::builder().rbac(true).build());
    grant(&service.client(), &["get", "create"], &["configmaps", "roles"]).await;
    let alice = service.client_as(&user("alice"));
    let role = |resource: &str| {
        let rules = json!([{ "verbs": ["get"], "apiGroups": [""], "resources": [resource] }]);
        json!({ "metadata": { "name": resource }, "rules": rules })
    };
    let (roles, held) = dynamic(&alice, "roles", "Role", role("configmaps"));
    assert!(roles.create(&PostParams::default(), &held).await.is_ok());
    let (roles, more) = dynamic(&alice, "roles", "Role", role("secrets"));
    assert_eq!(
        refused(roles.create(&PostParams::default(), &more).await),
        (
            403,
            "roles.rbac.authorization.k8s.io \"secrets\" is forbidden: user \"alice\" \
             (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not \
             currently held:\n{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}"
                .to_owned()
        )
    );
}

/// A writer that can be read while others write.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn events(&self) -> Vec<Value> {
        let bytes = self.0.lock().expect("not poisoned").clone();
        let text = String::from_utf8(bytes).expect("text");
        text.lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    }
}

#[tokio::test]
async fn the_audit_log_names_who_did_what_to_which_object() {
    let lines = Lines::default();
    let log = Log::new(lines.clone());
    let service = Service::with(ApiServer::builder().build(), Tokens::default(), Some(log));
    let maps: Api<ConfigMap> = Api::default_namespaced(service.client_as(&admin()));
    maps.create(&PostParams::default(), &config_map("a"))
        .await
        .expect("created");
    drop(maps.watch(&WatchParams::default(), "0").await.expect("watched"));
    let events = lines.events();
    let stages: Vec<_> = events.iter().map(|event| (&event["verb"], &event["stage"])).collect();
    assert_eq!(
        stages,
        [
            (&json!("create"), &json!("ResponseComplete")),
            (&json!("watch"), &json!("ResponseStarted")),
            (&json!("watch"), &json!("ResponseComplete")),
        ]
    );
    let first = &events[0];
    assert_eq!(first["user"]["username"], "admin");
    assert_eq!(
        first["objectRef"],
        json!({ "resource": "configmaps", "namespace": "default", "name": "a", "apiVersion": "v1" })
    );
    assert_eq!(first["responseStatus"], json!({ "metadata": {}, "code": 201 }));
}

#[tokio::test]
async fn a_box_serves_kubes_client_over_tls() {
    let listen = "127.0.0.1:0".parse().expect("an address");
    let config = StandaloneConfig {
        listen,
        rbac: true,
        ..StandaloneConfig::default()
    };
    let running = start(config).await.expect("started");
    let kubeconfig = kube::config::Kubeconfig::from_yaml(running.kubeconfig()).expect("readable");
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .expect("a config");
    let client = Client::try_from(config).expect("a client");
    assert_eq!(
        client.apiserver_version().await.expect("a version").git_version,
        "v1.36.4"
    );
    let spaces: Api<Namespace> = Api::all(client);
    assert!(spaces.get("default").await.is_ok());
    running.stop().await;
}
