//! Promise: a complete operator fits on a page, and the page in the README is the one that runs.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::lab::{Lab, on_box, on_real, page, seconds, wait_until};
use crate::page;
use crate::page::Page;

const SOURCE: &str = include_str!("../../examples/page.rs");
const README: &str = include_str!("../../README.md");

#[test]
fn the_readme_shows_the_operator_that_is_tested() {
    assert!(SOURCE.lines().count() < 100);
    assert!(README.contains(SOURCE), "copy examples/page.rs into README.md");
}

fn ready(page: &Page) -> Option<(String, i64)> {
    let status = page.status.as_ref()?;
    let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready")?;
    Some((ready.status.clone(), status.observed_generation?))
}

/// Creates, edits, breaks, fixes and deletes a page.
async fn run_example(lab: Lab) {
    let pages = page(&lab).await;
    let maps: Api<ConfigMap> = Api::namespaced(lab.user(), "default");
    let operator = page::operator(lab.client("operator").0);
    let scenario = async {
        let is = |status: &'static str, generation| {
            let pages = pages.clone();
            move || {
                let pages = pages.clone();
                async move { ready(&pages.get("front").await.unwrap()) == Some((status.to_owned(), generation)) }
            }
        };
        wait_until(seconds(10), "Ready", is("True", 1)).await;
        let edit = |title: &str| {
            let (pages, patch) = (pages.clone(), json!({ "spec": { "title": title } }));
            async move {
                pages
                    .patch("front", &PatchParams::default(), &Patch::Merge(patch))
                    .await
                    .unwrap()
            }
        };
        edit("").await;
        wait_until(seconds(10), "a page without a title is rejected", is("False", 2)).await;
        edit("another").await;
        wait_until(seconds(10), "the title is fixed", is("True", 3)).await;
        let html = maps.get("front").await.unwrap().data.unwrap()["index.html"].clone();
        assert!(html.contains("<h1>another</h1>"), "{html}");
        maps.delete("front", &DeleteParams::default()).await.unwrap();
        wait_until(seconds(10), "a deleted child is recreated", || async {
            maps.get_opt("front").await.unwrap().is_some()
        })
        .await;
        pages.delete("front", &DeleteParams::default()).await.unwrap();
        wait_until(seconds(60), "the child is deleted with its page", || async {
            maps.get_opt("front").await.unwrap().is_none()
        })
        .await;
    };
    tokio::select! { biased;
        () = scenario => {}
        ended = operator.run(std::future::pending()) => panic!("the operator ended: {ended:?}"),
    }
}

#[test]
fn the_example_converges_on_the_box() {
    on_box(12, run_example);
}

#[test]
#[ignore = "needs the real control plane"]
fn real_the_example_converges() {
    on_real(run_example);
}

#[test]
fn a_stop_is_prompt_and_clean() {
    let took = on_box(2, |lab| async move {
        page(&lab).await;
        let operator = page::operator(lab.client("operator").0);
        let began = tokio::time::Instant::now();
        operator.run(tokio::time::sleep(seconds(5))).await.unwrap();
        began.elapsed()
    });
    assert!(took < seconds(5) + Duration::from_millis(100), "{took:?}");
}
