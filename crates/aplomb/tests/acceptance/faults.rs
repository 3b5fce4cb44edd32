//! Promise: a reconcile that panics, one that hangs and one that returns garbage are faults of their own
//! key. Every other key is served as if they were not there.

use std::sync::Arc;
use std::time::Duration;

use aplomb::{Class, Context, Controller, Engine, Error, Verdict};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::time::Instant;

use crate::conflicts::seconds;
use crate::lab::{Lab, on_box, until};
use crate::page::{self, Page, PageSpec};

/// Does what the title says.
async fn actor(page: Arc<Page>, cx: Context<Page>) -> aplomb::Result<Verdict> {
    match page.spec.title.as_str() {
        "panics" => panic!("as the title says"),
        "hangs" => std::future::pending().await,
        "garbage" => {
            cx.status(json!("not an object"));
            Err(Error::new(Class::Fault, "\u{0} garbage \u{7f}"))
        }
        "invalid" => {
            cx.status(json!({ "words": "not a number" }));
            Ok(Verdict::Settled)
        }
        words => {
            cx.status(json!({ "words": words.len() }));
            Ok(Verdict::Settled)
        }
    }
}

async fn create(pages: &Api<Page>, name: &str, title: &str) {
    let mut page = Page::new(
        name,
        PageSpec {
            title: title.into(),
            text: String::new(),
        },
    );
    page.metadata.namespace = Some("default".into());
    until(seconds(10), "pages are served", || async {
        pages.create(&PostParams::default(), &page).await.is_ok()
    })
    .await;
}

fn condition(page: &Page, kind: &str) -> Option<(String, String)> {
    let status = page.status.as_ref()?;
    let found = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == kind)?;
    Some((found.status.clone(), found.reason.clone()))
}

async fn bad_company(lab: Lab, workers: usize) -> (Duration, Page) {
    page::install(&lab.user()).await.unwrap();
    let pages: Api<Page> = Api::namespaced(lab.user(), "default");
    for title in ["panics", "hangs", "garbage", "invalid"] {
        create(&pages, title, title).await;
    }
    let controller = Controller::new("actor", actor)
        .workers(workers)
        .deadline(seconds(30));
    let engine = Engine::new("actor.example.com", lab.client("operator").0).controller(controller);
    let scenario = async {
        let mut worst = Duration::ZERO;
        for round in 0..60 {
            let title = format!("round {round}");
            create(&pages, &format!("good-{round}"), &title).await;
            let began = Instant::now();
            until(seconds(5), "a good page is served", || async {
                let page = pages.get(&format!("good-{round}")).await.unwrap();
                condition(&page, "Ready").is_some_and(|(status, _)| status == "True")
            })
            .await;
            worst = worst.max(began.elapsed());
            tokio::time::sleep(seconds(1)).await;
        }
        let quarantined = pages.get("panics").await.unwrap();
        let mend = Patch::Merge(json!({ "spec": { "title": "mended" } }));
        pages
            .patch("panics", &PatchParams::default(), &mend)
            .await
            .unwrap();
        until(seconds(2), "an edit lifts the quarantine", || async {
            condition(&pages.get("panics").await.unwrap(), "Stalled").is_none()
        })
        .await;
        (worst, quarantined)
    };
    tokio::select! { biased;
        found = scenario => found,
        ended = engine.run(std::future::pending()) => panic!("the operator ended: {ended:?}"),
    }
}

#[test]
fn bad_keys_harm_no_others_and_say_so() {
    let (worst, quarantined) = on_box(7, |lab| bad_company(lab, 2));
    assert!(worst <= Duration::from_millis(100), "{worst:?}");
    assert_eq!(
        condition(&quarantined, "Stalled"),
        Some(("True".into(), "Quarantined".into()))
    );
}
