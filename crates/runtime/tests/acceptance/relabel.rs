//! Promise: labels of objects of other writers can be set and removed regardless of who wrote them, and each
//! replica can report its own state without the lease.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aplomb::{
    Action, Context, Controller, Engine, LeaseConfig, MetaRef, MetadataPatch, ObjectKey, Predicate, Result, Scope,
    Trigger, View, ViewMeta,
};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::lab::{Lab, on_box, page, seconds, wait_until};
use crate::page::Page;

/// A node with all its labels and no other fields.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct LabeledNode {
    metadata: ViewMeta<BTreeMap<String, String>>,
}

impl View for LabeledNode {
    type Kind = Node;

    fn meta(&self) -> MetaRef<'_> {
        self.metadata.as_ref()
    }
}

/// Moves the label `page` of the node: any other value is replaced by the page's name.
async fn move_label(page: Arc<Page>, cx: Context<Page>) -> Result<Action> {
    let key = ObjectKey::new(None, "worker");
    let name = page.metadata.name.clone();
    let change = MetadataPatch {
        labels: [("page".into(), name.clone()), ("old".into(), None)].into(),
        ..MetadataPatch::default()
    };
    cx.patch_metadata::<LabeledNode>(&key, &change).await?;
    let seen = cx.cache::<LabeledNode>()?.get(&key).expect("the node is cached");
    assert_eq!(
        seen.metadata.labels.get("page"),
        name.as_ref(),
        "the cache shows the label at once"
    );
    Ok(Action::Done)
}

async fn worker(lab: &Lab) -> Api<Node> {
    let nodes: Api<Node> = Api::all(lab.user());
    let labels = [("old", "1"), ("kept", "1"), ("page", "other")];
    let metadata = ObjectMeta {
        name: Some("worker".into()),
        labels: Some(labels.map(|(key, value)| (key.into(), value.into())).into()),
        ..ObjectMeta::default()
    };
    let node = Node {
        metadata,
        ..Node::default()
    };
    nodes.create(&PostParams::default(), &node).await.unwrap();
    nodes
}

#[test]
fn foreign_label_is_replaced_and_another_removed() {
    let labels = on_box(1, |lab| async move {
        let nodes = worker(&lab).await;
        page(&lab).await;
        let controller = Controller::new("mover", move_label).watches::<LabeledNode>(
            Scope::default(),
            Predicate::changed_by(|node: &LabeledNode| node.metadata.labels.clone()),
            |_, pages| pages.list().iter().map(|page| View::meta(&**page).key()).collect(),
        );
        let engine = Engine::new("mover", lab.client("mover").0).controller(controller);
        let stop = CancellationToken::new();
        let running = tokio::spawn(engine.run(stop.clone().cancelled_owned()));
        wait_until(seconds(5), "the label moves", || async {
            let labels = nodes.get("worker").await.unwrap().metadata.labels.unwrap();
            labels.get("page").is_some_and(|page| page == "front")
        })
        .await;
        stop.cancel();
        running.await.unwrap().unwrap();
        nodes.get("worker").await.unwrap().metadata.labels.unwrap()
    });
    let labels: Vec<_> = labels.iter().map(|(key, value)| (&**key, &**value)).collect();
    assert_eq!(labels, [("kept", "1"), ("page", "front")]);
}

/// Reports its identity and its term.
fn label_writer(identity: &'static str, everywhere: bool) -> Controller<Page> {
    let said = move |_: Arc<Page>, cx: Context<Page>| async move {
        let data = [("term".to_owned(), cx.leader_term().to_string())];
        cx.apply(ConfigMap {
            metadata: ObjectMeta {
                name: Some(format!("said-by-{identity}")),
                namespace: Some("default".into()),
                ..ObjectMeta::default()
            },
            data: Some(data.into()),
            ..ConfigMap::default()
        })
        .await?;
        Ok(Action::Done)
    };
    let controller = Controller::new("says", said).owns::<ConfigMap>(Predicate::always());
    if everywhere {
        controller.without_leader_election()
    } else {
        controller
    }
}

/// How many of two replicas have reported after ten seconds, and whether the page has a status.
fn count_reports(everywhere: bool) -> (usize, bool) {
    on_box(2, move |lab| async move {
        let pages = page(&lab).await;
        let stop = CancellationToken::new();
        let replicas = ["a", "b"].map(|identity| {
            let engine = Engine::new("says", lab.client(identity).0)
                .configure(|set| set.lease = Some(LeaseConfig::new("default", "says", identity)))
                .controller(label_writer(identity, everywhere));
            tokio::spawn(engine.run(stop.clone().cancelled_owned()))
        });
        tokio::time::sleep(seconds(10)).await;
        let maps: Api<ConfigMap> = Api::namespaced(lab.user(), "default");
        let maps = maps.list(&kube::api::ListParams::default()).await.unwrap();
        let said = maps.items.iter().filter_map(|map| map.data.as_ref()?.get("term"));
        let said = said.inspect(|term| assert_eq!(*term, "1")).count();
        let status = pages.get("front").await.unwrap().status;
        stop.cancel();
        for replica in replicas {
            replica.await.unwrap().unwrap();
        }
        (said, status.is_some_and(|status| !status.conditions.is_empty()))
    })
}

#[test]
fn controller_without_leader_election_needs_no_lease_and_no_status() {
    assert_eq!(count_reports(true), (2, false));
    assert_eq!(count_reports(false), (1, true), "only the leader reports");
}

#[test]
fn trigger_runs_its_key_and_deletion_calls_the_hook() {
    let (runs, forgotten) = on_box(3, |lab| async move {
        let pages = page(&lab).await;
        let (poke, runs, gone) = (
            Trigger::default(),
            Arc::new(AtomicUsize::new(0)),
            DeletedKeys::default(),
        );
        let (counted, told) = (runs.clone(), gone.clone());
        let count = move |_: Arc<Page>, _: Context<Page>| {
            counted.fetch_add(1, Ordering::Relaxed);
            async { Ok(Action::Done) }
        };
        let controller = Controller::new("poked", count)
            .triggered_by(&poke, "probe")
            .on_deleted(move |key| told.lock().unwrap().push(key.clone()));
        let engine = Engine::new("poked", lab.client("poked").0).controller(controller);
        let stop = CancellationToken::new();
        let running = tokio::spawn(engine.run(stop.clone().cancelled_owned()));
        tokio::time::sleep(seconds(5)).await;
        let before = runs.load(Ordering::Relaxed);
        for _ in 0..3 {
            poke.enqueue(&ObjectKey::new(Some("default"), "front"));
            poke.enqueue(&ObjectKey::new(Some("default"), "missing"));
            tokio::time::sleep(seconds(5)).await;
        }
        pages
            .delete("front", &kube::api::DeleteParams::default())
            .await
            .unwrap();
        tokio::time::sleep(seconds(5)).await;
        stop.cancel();
        running.await.unwrap().unwrap();
        (runs.load(Ordering::Relaxed) - before, gone.lock().unwrap().clone())
    });
    assert_eq!(runs, 3);
    assert_eq!(forgotten, [ObjectKey::new(Some("default"), "front")]);
}

type DeletedKeys = Arc<std::sync::Mutex<Vec<ObjectKey>>>;
