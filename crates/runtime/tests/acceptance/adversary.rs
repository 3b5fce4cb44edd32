//! Promise: a foreign change is never missed, even if it is hidden behind a write of our own.
//!
//! An adversary edits, reverts and deletes the controller's writes, at random, while watches
//! break and requests fail. Without a resync, a missed change would never be corrected.

use std::sync::Arc;
use std::time::Duration;

use aplomb::{Action, Context, Controller, Engine, ObjectKey, Predicate, Result};
use aplomb_simulation::faults::{Fault, Faults, Match, Rule, Sampler, WatchFault};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::lab::{Lab, on_box, page, seconds};
use crate::page::Page;

/// Writes the title to the child, and copies the note of another writer to the status.
async fn reconcile(page: Arc<Page>, context: Context<Page>) -> Result<Action> {
    let namespace = page.namespace();
    let key = ObjectKey::new(namespace.as_deref(), &page.name_any());
    let child = context.cache::<ConfigMap>()?.get(&key);
    let theirs = child.and_then(|child| child.data.clone()?.remove("theirs"));
    let metadata = ObjectMeta {
        name: page.metadata.name.clone(),
        namespace,
        ..ObjectMeta::default()
    };
    let data = Some([("title".to_owned(), page.spec.title.clone())].into());
    context
        .apply(ConfigMap {
            metadata,
            data,
            ..ConfigMap::default()
        })
        .await?;
    context.status(json!({ "words": number(theirs.as_deref()) }));
    Ok(Action::Done)
}

fn number(text: Option<&str>) -> usize {
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

async fn patch(maps: &Api<ConfigMap>, data: Value) {
    let patch = Patch::Merge(json!({ "data": data }));
    // The adversary may have deleted the child itself.
    drop(maps.patch("front", &PatchParams::default(), &patch).await);
}

/// A few edits, most of them so close together that they fall into one run.
async fn write_foreign_changes(pages: &Api<Page>, maps: &Api<ConfigMap>, rng: &mut fastrand::Rng) {
    for _ in 0..5 {
        let value = rng.u8(0..4).to_string();
        match rng.u8(0..10) {
            0..4 => patch(maps, json!({ "theirs": value })).await,
            4..6 => patch(maps, json!({ "title": value })).await,
            6 => drop(maps.delete("front", &DeleteParams::default()).await),
            _ => {
                let edit = Patch::Merge(json!({ "spec": { "title": format!("title {value}") } }));
                let edited = pages.patch("front", &PatchParams::default(), &edit).await;
                edited.expect("the user's requests meet no faults");
            }
        }
        let pause = [0, 0, 1, 5, 40, 900, 9_000][rng.usize(0..7)];
        sleep(Duration::from_millis(pause)).await;
    }
}

/// The faults of the operator's requests in the meantime.
#[derive(Clone, Copy)]
enum FaultMode {
    /// All kinds of faults.
    BadDay,
    /// The children are seen in lists only. Each list hides all steps but the last.
    Relists,
}

impl FaultMode {
    /// From before the operator starts until the end.
    fn set(self, faults: &Faults) {
        if matches!(self, Self::Relists) {
            let children = Match::watches().resource("configmaps");
            faults.add(Rule::new(Fault::Watch(WatchFault::Expired)).on(children));
        }
    }

    /// While the adversary is at work.
    fn begin(self, faults: &Faults, seed: u64) {
        if matches!(self, Self::BadDay) {
            faults.sample(Sampler::bad_day(seed, 0.15));
        }
    }

    fn end(self, faults: &Faults) {
        if matches!(self, Self::BadDay) {
            faults.clear();
        }
    }
}

async fn run_adversary(lab: Lab, seed: u64, weather: FaultMode) {
    let pages = page(&lab).await;
    let maps: Api<ConfigMap> = Api::namespaced(lab.user(), "default");
    let (client, faults) = lab.client("operator");
    weather.set(&faults);
    let controller = Controller::<Page>::new("page", reconcile).owns::<ConfigMap>(Predicate::always());
    let engine = Engine::new("pages.example.com", client).controller(controller);
    let scenario = async {
        let mut rng = fastrand::Rng::with_seed(seed);
        // Checked often, because the next change that is seen makes up for one that was missed.
        for round in 0..12 {
            weather.begin(&faults, seed + round);
            write_foreign_changes(&pages, &maps, &mut rng).await;
            weather.end(&faults);
            sleep(seconds(200)).await;
            let page = pages.get("front").await.unwrap();
            let child = maps.get("front").await.unwrap().data.unwrap_or_default();
            let status = page.status.map(|status| status.words);
            let theirs = number(child.get("theirs").map(String::as_str));
            assert_eq!(child.get("title"), Some(&page.spec.title), "seed {seed} round {round}");
            assert_eq!(status, Some(theirs), "seed {seed} round {round}");
        }
    };
    tokio::select! { biased;
        () = scenario => {}
        ended = engine.run(std::future::pending()) => panic!("the operator ended: {ended:?}"),
    }
}

#[test]
fn no_foreign_change_is_missed_on_bad_days() {
    for seed in 0..30 {
        on_box(seed, move |lab| run_adversary(lab, seed, FaultMode::BadDay));
    }
}

#[test]
fn no_foreign_change_is_missed_behind_an_own_write_in_a_list() {
    for seed in 100..130 {
        on_box(seed, move |lab| run_adversary(lab, seed, FaultMode::Relists));
    }
}
