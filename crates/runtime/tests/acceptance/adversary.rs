//! Promise: a foreign change is never missed, also when it hides behind a write of our own.
//!
//! An adversary edits, takes back and deletes what a controller writes, at random, while watches
//! break and requests fail. There is no resync: what was missed once would stay wrong for ever.

use std::sync::Arc;
use std::time::Duration;

use aplomb::{Context, Controller, Engine, Key, Lens, Result, Verdict};
use aplomb_simulation::faults::{Fault, Faults, Match, Rule, Sampler, WatchFault};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::lab::{Lab, on_box, page, seconds};
use crate::page::Page;

/// Writes the title to the child, and reports what somebody else wrote there.
async fn reconcile(page: Arc<Page>, context: Context<Page>) -> Result<Verdict> {
    let namespace = page.namespace();
    let key = Key::new(namespace.as_deref(), &page.name_any());
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
    Ok(Verdict::Settled)
}

fn number(text: Option<&str>) -> usize {
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

async fn patch(maps: &Api<ConfigMap>, data: Value) {
    let patch = Patch::Merge(json!({ "data": data }));
    // The child may be gone, by the adversary's own hand.
    drop(maps.patch("front", &PatchParams::default(), &patch).await);
}

/// A few edits, most of them so close together that they fall into one run.
async fn meddle(pages: &Api<Page>, maps: &Api<ConfigMap>, rng: &mut fastrand::Rng) {
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

/// What happens to the operator's requests meanwhile.
#[derive(Clone, Copy)]
enum Weather {
    /// All kinds of faults.
    BadDay,
    /// The children are seen in lists only, each of which hides all steps but the last.
    Relists,
}

impl Weather {
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

async fn adversary(lab: Lab, seed: u64, weather: Weather) {
    let pages = page(&lab).await;
    let maps: Api<ConfigMap> = Api::namespaced(lab.user(), "default");
    let (client, faults) = lab.client("operator");
    weather.set(&faults);
    let controller =
        Controller::<Page>::new("page", reconcile).owns::<ConfigMap>(Lens::everything());
    let engine = Engine::new("pages.example.com", client).controller(controller);
    let scenario = async {
        let mut rng = fastrand::Rng::with_seed(seed);
        // Looked at often, since the next change that is seen makes up for one that was missed.
        for round in 0..12 {
            weather.begin(&faults, seed + round);
            meddle(&pages, &maps, &mut rng).await;
            weather.end(&faults);
            sleep(seconds(200)).await;
            let page = pages.get("front").await.unwrap();
            let child = maps.get("front").await.unwrap().data.unwrap_or_default();
            let status = page.status.map(|status| status.words);
            let theirs = number(child.get("theirs").map(String::as_str));
            assert_eq!(
                child.get("title"),
                Some(&page.spec.title),
                "seed {seed} round {round}"
            );
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
        on_box(seed, move |lab| adversary(lab, seed, Weather::BadDay));
    }
}

#[test]
fn no_foreign_change_is_missed_behind_an_own_write_in_a_list() {
    for seed in 100..130 {
        on_box(seed, move |lab| adversary(lab, seed, Weather::Relists));
    }
}
