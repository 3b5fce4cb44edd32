//! Promise: a claim is created once, the status of a child is written once, and a
//! silent controller writes no status.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aplomb::{Action, Context, Controller, Engine, ErrorClass, ObjectKey, Predicate, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::lab::{Lab, on_box, page, seconds};
use crate::page::Page;

fn claim(by: &str) -> ConfigMap {
    ConfigMap {
        metadata: named("claim"),
        data: Some([("by".to_owned(), by.to_owned())].into()),
        ..ConfigMap::default()
    }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some("default".to_owned()),
        ..ObjectMeta::default()
    }
}

/// The results of one controller's passes: how often it was first, and how often it was not.
async fn contend_for_claim(lab: Lab, others: bool) -> (usize, usize, Option<String>) {
    page(&lab).await;
    let maps: Api<ConfigMap> = Api::namespaced(lab.user(), "default");
    if others {
        let theirs = claim("others");
        maps.create(&PostParams::default(), &theirs).await.unwrap();
    }
    let counts = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let counted = counts.clone();
    let controller = Controller::new("claims", move |_: Arc<Page>, cx: Context<Page>| {
        let counted = counted.clone();
        async move {
            let made = match cx.create(&claim("ours")).await {
                Ok(_) => 0,
                Err(error) if error.class() == ErrorClass::Exists => 1,
                Err(error) => return Err(error),
            };
            counted[made].fetch_add(1, Ordering::Relaxed);
            Ok(Action::Done)
        }
    });
    run(&lab, controller.resync(seconds(5)).without_status()).await;
    let by = maps.get("claim").await.unwrap().data.unwrap();
    let count = |index: usize| counts[index].load(Ordering::Relaxed);
    (count(0), count(1), by.get("by").cloned())
}

async fn run(lab: &Lab, controller: Controller<Page>) {
    let engine = Engine::new("claims", lab.client("claims").0).controller(controller);
    let stop = CancellationToken::new();
    let running = tokio::spawn(engine.run(stop.clone().cancelled_owned()));
    tokio::time::sleep(seconds(20)).await;
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[test]
fn first_writer_keeps_the_claim() {
    let (first, second, by) = on_box(11, |lab| contend_for_claim(lab, false));
    assert_eq!((first, by.as_deref()), (1, Some("ours")));
    assert!(second > 1, "later passes find it there");
    let (first, second, by) = on_box(11, |lab| contend_for_claim(lab, true));
    assert_eq!((first, by.as_deref()), (0, Some("others")));
    assert!(second > 1);
}

/// Creates a Service and writes its address to its status.
async fn report_child_status(_: Arc<Page>, cx: Context<Page>) -> Result<Action> {
    let service: Service = serde_json::from_value(json!({
        "metadata": {"name": "front"}, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
    }))?;
    cx.apply(service).await?;
    let status = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}});
    let key = ObjectKey::new(Some("default"), "front");
    cx.apply_child_status::<Service>(&key, status).await?;
    Ok(Action::Done)
}

#[test]
fn child_status_is_written_once_and_owner_status_never_without_status() {
    let (address, versions, told) = on_box(12, |lab| async move {
        let pages = page(&lab).await;
        let services: Api<Service> = Api::namespaced(lab.user(), "default");
        let mut versions = Vec::new();
        for _ in 0..2 {
            let controller = Controller::new("claims", report_child_status)
                .owns::<Service>(Predicate::always())
                .resync(seconds(5))
                .without_status();
            run(&lab, controller).await;
            let service = services.get("front").await.unwrap();
            versions.push(service.metadata.resource_version.clone());
        }
        let status = services.get("front").await.unwrap().status.unwrap();
        let ingress = status.load_balancer.unwrap().ingress.unwrap();
        let status = pages.get("front").await.unwrap().status;
        let told = status.is_some_and(|status| !status.conditions.is_empty());
        (ingress[0].ip.clone(), versions, told)
    });
    assert_eq!(address.as_deref(), Some("192.0.2.7"));
    assert_eq!(versions[0], versions[1], "nothing was written again");
    assert!(!told);
}
