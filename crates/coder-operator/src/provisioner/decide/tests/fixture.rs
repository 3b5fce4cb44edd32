//! Worlds to decide on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aplomb_api::coder::{CoderProvisioner, KeyRecord, SecretKeyRef, ServerBinding, key_name};
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
    CallError, CallErrorClass, Entitlement, Entitlements, Feature, Organization, ProvisionerDaemon, ProvisionerKey,
    ProvisionerKeyDaemons,
};
use crate::provisioner::decide::{decide, tags_hash};
use crate::provisioner::{KeyScope, Observed, Plan, Progress};
use crate::server::Timestamped;

pub(super) const NOW: &str = "2030-01-01T12:00:00Z";
pub(super) const URL: &str = "https://coder.example.com";
pub(super) const ORG: &str = "11111111-1111-4111-8111-111111111111";

pub(super) fn now() -> Timestamp {
    NOW.parse().expect("a time")
}

/// A time so many seconds before now.
pub(super) fn ago(seconds: i64) -> Time {
    Time(Timestamp::from_second(now().as_second() - seconds).expect("a time"))
}

pub(super) fn object(change: Value) -> CoderProvisioner {
    let mut object = json!({
        "apiVersion": "aplomb.dev/v1alpha1", "kind": "CoderProvisioner",
        "metadata": { "name": "team", "namespace": "dev", "uid": "u", "generation": 1,
            "finalizers": ["coder.aplomb.dev/cleanup"] },
        "spec": { "image": "registry.example.com/coder:1", "replicas": 2,
            "server": { "url": URL, "tokenSecretRef": { "name": "token", "key": "token" } } },
    });
    merge(&mut object, change);
    serde_json::from_value(object).expect("a CoderProvisioner")
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
    let token = ApiToken::new("a-token-for-tests").expect("a token");
    Access {
        url: url.to_owned(),
        ca: None,
        binding: ServerBinding {
            server_url: url.to_owned(),
            control_plane: None,
            ca_bundle: None,
            token_secret_ref: SecretKeyRef {
                name: "token".to_owned(),
                key: "token".to_owned(),
            },
            token_fingerprint: fingerprint(&token),
        },
        token,
        control_plane: None,
        image: None,
    }
}

pub(super) fn place() -> KeyScope {
    KeyScope::new(&access(URL).binding, ORG)
}

/// A key of ours that is an hour old.
pub(super) fn key(name: &str) -> KeyRecord {
    KeyRecord {
        name: name.to_owned(),
        id: None,
        organization_id: ORG.to_owned(),
        organization_name: "default".to_owned(),
        tags_hash: tags_hash(&BTreeMap::new()),
        since: ago(3600),
        binding: access(URL).binding,
    }
}

/// The name of the key that the object makes after so many others.
pub(super) fn numbered_key_name(number: u32) -> String {
    key_name("team", "u", number)
}

/// The same as the server shows it.
pub(super) fn listed_key(name: &str) -> ProvisionerKey {
    ProvisionerKey {
        id: format!("id-of-{name}"),
        created_at: ago(3600).0,
        name: name.to_owned(),
        tags: None,
    }
}

pub(super) fn listed<T>(value: T) -> Arc<Timestamped<T>> {
    Arc::new(Timestamped {
        requested_at: Instant::now(),
        server_time: now(),
        value,
    })
}

/// An object that was just made, at a server that is there and shows `keys`.
pub(super) fn world(object: CoderProvisioner, keys: &[&str]) -> Observed {
    let feature = Feature {
        entitlement: Entitlement::Entitled,
        enabled: true,
    };
    let entitlements = Entitlements {
        provisioners: feature,
        proxies: feature,
    };
    let organization = Organization {
        id: ORG.to_owned(),
        name: "default".to_owned(),
    };
    let keys = keys.iter().map(|name| listed_key(name)).collect();
    Observed {
        status: object.status.clone().unwrap_or_default(),
        object: Arc::new(object),
        now: now(),
        instant: Instant::now(),
        pass_started: Instant::now(),
        access: Ok(access(URL)),
        bound_scopes: [place()].into(),
        foreign_claims: std::collections::BTreeSet::new(),
        secret_kept: true,
        secret: SecretState::Absent,
        deployment: None,
        progress: Progress {
            entitlements: Some(Ok(listed(entitlements))),
            organization: Some(Ok(organization)),
            keys: [(place(), Ok(listed(keys)))].into(),
            ..Progress::default()
        },
        remembered: RememberedState::default(),
    }
}

/// An object whose key `name` is in use by `connected` of two daemons.
pub(super) fn running(change: Value, name: &str, connected: usize) -> Observed {
    let mut world = world(object(change), &[name]);
    world.status.key = Some(key(name));
    world.secret = secret_holding(name);
    world.deployment = Some(DeploymentState {
        replicas: 2,
        ready: 2,
        rolled: true,
    });
    world.progress.applied = true;
    world.progress.daemons = [(place(), Ok(listed(vec![daemons(name, connected)])))].into();
    world
}

pub(super) fn secret_holding(name: &str) -> SecretState {
    SecretState::Owned {
        key_name: Some(name.to_owned()),
        intact: true,
    }
}

pub(super) fn daemons(name: &str, many: usize) -> ProvisionerKeyDaemons {
    let daemon = |number: usize| ProvisionerDaemon {
        id: format!("{name}-{number}"),
        name: format!("{name}-{number}"),
        status: Some("idle".to_owned()),
        last_seen_at: None,
    };
    ProvisionerKeyDaemons {
        key: listed_key(name),
        daemons: Some((0..many).map(daemon).collect()),
    }
}

pub(super) fn refused_call(class: CallErrorClass) -> Blocked {
    Blocked::Refused(CallError {
        class,
        status: None,
        endpoint: "create key",
        message: "for a test".to_owned(),
        headers: HeaderMap::new(),
    })
}

pub(super) fn deferred_call(limited: bool) -> Blocked {
    Blocked::Later {
        until: Instant::now() + Duration::from_secs(30),
        limited,
        endpoint: "create key",
    }
}

/// What a plan says of one condition: its status and reason.
pub(super) fn condition<'a>(plan: &'a Plan, kind: &str) -> Option<(&'static str, &'a str)> {
    let all = plan.conditions.iter();
    let found = all.rev().find(|it| it.type_ == kind)?;
    Some((found.status.as_str(), &found.reason))
}

pub(super) fn plan(world: &Observed) -> Plan {
    decide(world)
}
