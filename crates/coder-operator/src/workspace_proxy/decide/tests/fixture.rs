//! Worlds to decide on.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use aplomb_api::coder::{
    CoderWorkspaceProxy, PendingProxy, RetiringProxy, SecretKeyRef, ServerBinding, conditions as kinds,
};
use aplomb_http_client::ApiToken;
use http::HeaderMap;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::access::{Access, fingerprint};
use crate::blocked::Blocked;
use crate::children_state::{DeploymentState, RememberedState, SecretState};
use crate::client::{
    CallError, CallErrorClass, Entitlement, Entitlements, Feature, WorkspaceProxy, WorkspaceProxyHealth,
};
use crate::server::Timestamped;
use crate::workspace_proxy::decide::decide;
use crate::workspace_proxy::decide::desired::{display_key, proxy_display};
use crate::workspace_proxy::{Observed, Plan, Progress, ProxyScope, Step};

pub(super) const URL: &str = "https://coder.example.com";
pub(super) const OTHER: &str = "https://other.example.com";
pub(super) const ID: &str = "id-1";

pub(super) fn now() -> Timestamp {
    "2030-01-01T12:00:00Z".parse().expect("a time")
}

/// A time so many seconds before now.
pub(super) fn ago(seconds: i64) -> Time {
    Time(Timestamp::from_second(now().as_second() - seconds).expect("a time"))
}

/// An object called `europe` that registers itself.
pub(super) fn object(change: Value) -> CoderWorkspaceProxy {
    let mut object = json!({
        "apiVersion": "aplomb.dev/v1alpha1", "kind": "CoderWorkspaceProxy",
        "metadata": { "name": "europe", "namespace": "dev", "uid": "u", "generation": 1,
            "finalizers": ["coder.aplomb.dev/cleanup"] },
        "spec": { "image": "registry.example.com/coder:1", "replicas": 2,
            "bootstrap": { "server":
                { "url": URL, "tokenSecretRef": { "name": "token", "key": "token" } } } },
    });
    merge(&mut object, change);
    serde_json::from_value(object).expect("a CoderWorkspaceProxy")
}

fn merge(into: &mut Value, change: Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (key, value) in change {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, change) => *into = change,
    }
}

pub(super) fn access(url: &str) -> Access {
    let token = ApiToken::new(&format!("token-of-{url}")).expect("a token");
    let binding = ServerBinding {
        server_url: url.to_owned(),
        control_plane: None,
        ca_bundle: None,
        token_secret_ref: SecretKeyRef {
            name: "token".to_owned(),
            key: "token".to_owned(),
        },
        token_fingerprint: fingerprint(&token),
    };
    Access {
        url: url.to_owned(),
        ca: None,
        token,
        binding,
        control_plane: None,
        image: None,
    }
}

pub(super) fn binding(url: &str) -> ServerBinding {
    access(url).binding
}

/// A licensed server, with nothing else read yet.
pub(super) fn world(object: CoderWorkspaceProxy) -> Observed {
    let listed = Entitlements {
        proxies: Feature {
            entitlement: Entitlement::Entitled,
            enabled: true,
        },
        ..Entitlements::default()
    };
    Observed {
        access: object.spec.bootstrap.is_some().then(|| Ok(access(URL))),
        object: Arc::new(object),
        status: Default::default(),
        now: now(),
        instant: Instant::now(),
        pass_started: Instant::now(),
        bound_scopes: BTreeSet::from([
            ProxyScope::for_binding(&binding(URL)),
            ProxyScope::for_binding(&binding(OTHER)),
        ]),
        secret_kept: true,
        secret: SecretState::Absent,
        deployment: None,
        progress: Progress {
            entitlements: Some(Ok(Arc::new(timestamped(listed)))),
            ..Progress::default()
        },
        remembered: RememberedState::default(),
    }
}

/// A world in which the proxy `europe` is registered, has its token and serves.
pub(super) fn settled(change: Value) -> Observed {
    let mut world = world(object(change));
    let looks = proxy_display(&object(json!({})));
    let status = &mut world.status;
    status.registered = true;
    status.proxy_id = Some(ID.to_owned());
    status.proxy_name = Some("europe".to_owned());
    status.binding = Some(binding(URL));
    status.described = Some(display_key(&looks.name, &looks.display_name, &looks.icon));
    status.phase = Some("Ready".to_owned());
    world.secret = secret_holding(ID);
    world.deployment = Some(DeploymentState {
        replicas: 2,
        ready: 2,
        rolled: true,
    });
    set_found(&mut world, URL, ID, Some(proxy(ID, "europe", 3600)));
    world.progress.applied = true;
    world
}

pub(super) fn secret_holding(id: &str) -> SecretState {
    SecretState::Owned {
        key_name: Some(id.to_owned()),
        intact: true,
    }
}

pub(super) fn timestamped<T>(value: T) -> Timestamped<T> {
    Timestamped {
        requested_at: Instant::now(),
        server_time: now(),
        value,
    }
}

/// A healthy proxy that was made so many seconds ago.
pub(super) fn proxy(id: &str, name: &str, age: i64) -> WorkspaceProxy {
    WorkspaceProxy {
        id: id.to_owned(),
        name: name.to_owned(),
        display_name: name.to_owned(),
        icon: format!("/emojis/1f310.png#aplomb-{}", aplomb_api::coder::owner_suffix("u")),
        created_at: Some(ago(age).0),
        deleted: false,
        status: Some(WorkspaceProxyHealth {
            status: "ok".to_owned(),
        }),
    }
}

/// The server at `url` says this of a name or id.
pub(super) fn set_found(world: &mut Observed, url: &str, name: &str, found: Option<WorkspaceProxy>) {
    let place = (ProxyScope::for_binding(&binding(url)), name.to_owned());
    let looked = Ok(Arc::new(timestamped(found)));
    world.progress.proxies.insert(place, looked);
}

/// A read of a name or ID at the server at `url` is blocked.
pub(super) fn set_blocked(world: &mut Observed, url: &str, name: &str, why: Blocked) {
    let place = (ProxyScope::for_binding(&binding(url)), name.to_owned());
    world.progress.proxies.insert(place, Err(why));
}

pub(super) fn pending(name: &str, seconds: i64) -> PendingProxy {
    PendingProxy {
        name: name.to_owned(),
        since: ago(seconds),
        binding: binding(URL),
    }
}

pub(super) fn retiring(id: &str, seconds: i64) -> RetiringProxy {
    RetiringProxy {
        id: id.to_owned(),
        name: "old".to_owned(),
        retired: ago(seconds),
        binding: binding(URL),
    }
}

pub(super) fn refused_call(class: CallErrorClass) -> Blocked {
    Blocked::Refused(CallError {
        class,
        status: None,
        endpoint: "create proxy",
        message: "no".to_owned(),
        headers: HeaderMap::new(),
    })
}

pub(super) fn deferred_call(limited: bool) -> Blocked {
    Blocked::Later {
        until: Instant::now() + Duration::from_secs(30),
        limited,
        endpoint: "create proxy",
    }
}

pub(super) fn plan(world: &Observed) -> Plan {
    decide(world)
}

/// The next step, as a word.
pub(super) fn step(world: &Observed) -> &'static str {
    match plan(world).step {
        None => "none",
        Some(Step::Finalize) => "finalize",
        Some(Step::Entitlements) => "entitlements",
        Some(Step::Read(..)) => "look",
        Some(Step::Register(_)) => "register",
        Some(Step::RotateToken(_)) => "retoken",
        Some(Step::Store(_)) => "store",
        Some(Step::PatchDisplay(_)) => "describe",
        Some(Step::Apply(_)) => "apply",
        Some(Step::Drain) => "drain",
        Some(Step::Deregister(_)) => "deregister",
        Some(Step::Release) => "release",
    }
}

/// Status and reason of a condition.
pub(super) fn condition(plan: &Plan, kind: &str) -> (String, String) {
    let found = plan.conditions.iter().find(|it| it.type_ == kind);
    found.map_or_else(Default::default, |it| {
        (it.status.as_str().to_owned(), it.reason.to_string())
    })
}

pub(super) fn ready(plan: &Plan) -> (String, String) {
    condition(plan, kinds::READY)
}

/// The reasons of the Events.
pub(super) fn notes(plan: &Plan) -> Vec<String> {
    plan.notes.iter().map(|it| it.reason.to_string()).collect()
}

pub(super) fn pair(one: &str, other: &str) -> (String, String) {
    (one.to_owned(), other.to_owned())
}
