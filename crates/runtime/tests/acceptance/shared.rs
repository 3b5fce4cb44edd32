//! Real control planes that scenarios use one after the other: starting one takes longer than most scenarios. There are
//! as many as tests run at a time, and each scenario finds the namespace `default` as it was when its plane started.

use std::collections::BTreeSet;
use std::sync::Mutex;

use aplomb_controlplane::{ControlPlane, Options};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::discovery::{Discovery, Scope, verbs};
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::lab::seconds;

/// A plane, and the objects that it had in the namespace from the start.
pub struct Shared {
    pub plane: ControlPlane,
    first: BTreeSet<String>,
}

static IDLE: Mutex<Vec<Shared>> = Mutex::new(Vec::new());

/// One that no other scenario uses. It is dropped, and so ended, if the scenario panics.
pub async fn take() -> Shared {
    let idle = IDLE.lock().expect("nothing panics with the lock held").pop();
    match idle {
        Some(shared) => shared,
        None => start().await,
    }
}

/// One that no other scenario has used.
pub async fn start() -> Shared {
    let plane = ControlPlane::start(Options::with_garbage_collection()).await;
    let plane = plane.expect("the control plane starts");
    let client = plane.client().await.expect("it has a client");
    let objects = objects(&client).await.expect("its objects are listed");
    let first = objects.iter().map(|(_, it)| uid(it)).collect();
    Shared { plane, first }
}

/// Removes what the scenario has made, for the next one. A plane that cannot be cleaned is ended instead.
pub async fn give_back(shared: Shared) {
    let client = shared.plane.client().await.expect("it has a client");
    if clean(&client, &shared.first).await {
        let mut idle = IDLE.lock().expect("nothing panics with the lock held");
        idle.push(shared);
    }
}

fn uid(object: &DynamicObject) -> String {
    object.uid().unwrap_or_default()
}

/// Whether nothing new is left in the namespace. The definition of pages stays: every scenario applies the same one.
async fn clean(client: &Client, first: &BTreeSet<String>) -> bool {
    let end = Instant::now() + seconds(30);
    while Instant::now() < end {
        let Ok(mut new) = objects(client).await else {
            return false;
        };
        new.retain(|(_, it)| !first.contains(&uid(it)));
        if new.is_empty() {
            return true;
        }
        for (api, object) in new {
            remove(&api, &object).await;
        }
        sleep(seconds(1) / 10).await;
    }
    false
}

/// Deletes an object without waiting for those who have finalizers on it. What fails is tried again in the next round.
async fn remove(api: &Api<DynamicObject>, object: &DynamicObject) {
    let name = object.name_any();
    if !object.finalizers().is_empty() {
        let none = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        let _next_round = api.patch(&name, &PatchParams::default(), &none).await;
    }
    let _next_round = api.delete(&name, &DeleteParams::background()).await;
}

/// All objects of the namespace of every kind that can be deleted.
async fn objects(client: &Client) -> kube::Result<Vec<(Api<DynamicObject>, DynamicObject)>> {
    let discovery = Discovery::new(client.clone()).run().await?;
    let mut all = Vec::new();
    for (resource, can) in discovery.groups().flat_map(|it| it.recommended_resources()) {
        let deletable = can.supports_operation(verbs::LIST) && can.supports_operation(verbs::DELETE);
        if can.scope != Scope::Namespaced || !deletable {
            continue;
        }
        let api = Api::namespaced_with(client.clone(), "default", &resource);
        let list = api.list(&ListParams::default()).await?;
        all.extend(list.into_iter().map(|object| (api.clone(), object)));
    }
    Ok(all)
}
