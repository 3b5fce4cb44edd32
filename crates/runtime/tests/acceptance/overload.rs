//! Promise: with ten times more work than capacity, every lane of a whole operator is served
//! within its bound. The queue alone is in `lanes`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aplomb::controller::{BackoffPolicies, BackoffPolicy};
use aplomb::queue::{self, Lane};
use aplomb::{Action, Context, Controller, Engine, Error, ErrorClass, ObjectKey, Predicate, Scope};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::lab::{Lab, on_box, on_real_alone, page, seconds};
use crate::page::{Page, PageSpec};

/// Objects in each lane.
const OBJECTS_PER_LANE: usize = 25;

/// The duration of a run. One worker then takes 20 keys in a second, the shortest bound, and the
/// queue guarantees the bound for at least 16.
const WORK: Duration = Duration::from_millis(50);

/// When the objects of each lane ran, by the first letter of their names.
type Runs = Arc<Mutex<BTreeMap<char, Vec<Instant>>>>;

/// One letter per lane.
const LANES: [(char, Lane); 4] = [
    ('e', Lane::Edit),
    ('i', Lane::Input),
    ('r', Lane::Retry),
    ('s', Lane::Resync),
];

fn controller(work: Duration, runs: &Runs, queue: queue::QueueConfig) -> Controller<Page> {
    let runs = runs.clone();
    let reconcile = move |page: Arc<Page>, _: Context<Page>| {
        let lane = page.name_any().chars().next().unwrap_or_default();
        runs.lock().unwrap().entry(lane).or_default().push(Instant::now());
        async move {
            sleep(work).await;
            match lane {
                'r' => Err(Error::new(ErrorClass::Unavailable, "as its name says")),
                's' => Ok(Action::Done),
                // Only events run these.
                _ => Ok(Action::RequeueAfter(seconds(3_600))),
            }
        }
    };
    let curves = BackoffPolicies::default().with_policy(ErrorClass::Unavailable, BackoffPolicy::constant(work));
    Controller::new("overload", reconcile)
        .watches::<ConfigMap>(Scope::default(), Predicate::always(), |map, _| {
            vec![ObjectKey::new(Some("default"), &map.name_any())]
        })
        .workers(1)
        .resync(work)
        .configure(|options| (options.queue, options.backoff) = (queue, Arc::new(curves)))
}

/// Edits pages and inputs, each in turn, one of both in every period `every`.
async fn flood(lab: &Lab, pages: Api<Page>, every: Duration) {
    let maps: Api<ConfigMap> = Api::namespaced(lab.user(), "default");
    let (params, post) = (PatchParams::default(), PostParams::default());
    for number in 0..OBJECTS_PER_LANE {
        let metadata = ObjectMeta {
            name: Some(format!("i-{number}")),
            ..ObjectMeta::default()
        };
        let data = None;
        let map = ConfigMap {
            metadata,
            data,
            ..ConfigMap::default()
        };
        maps.create(&post, &map).await.unwrap();
        for (lane, _) in LANES {
            let spec = PageSpec {
                title: "a title".into(),
                text: String::new(),
            };
            pages
                .create(&post, &Page::new(&format!("{lane}-{number}"), spec))
                .await
                .unwrap();
        }
    }
    for number in 0.. {
        let edit = Patch::Merge(json!({ "spec": { "text": number.to_string() } }));
        let input = Patch::Merge(json!({ "data": { "text": number.to_string() } }));
        let of = |lane: char| format!("{lane}-{}", number % OBJECTS_PER_LANE);
        pages.patch(&of('e'), &params, &edit).await.unwrap();
        maps.patch(&of('i'), &params, &input).await.unwrap();
        sleep(every).await;
    }
}

/// The longest time each lane went unserved, some time after the start.
async fn longest_gaps(lab: Lab, work: Duration, time: Duration, queue: queue::QueueConfig) -> BTreeMap<char, Duration> {
    let (pages, runs) = (page(&lab).await, Runs::default());
    let engine =
        Engine::new("overload.example.com", lab.client("operator").0).controller(controller(work, &runs, queue));
    // A fifth of the time of one key, for two keys: ten times as many as can be served.
    let flood = flood(&lab, pages, work / 5);
    tokio::select! { biased;
        () = sleep(time) => {}
        () = flood => {}
        ended = engine.run(std::future::pending()) => panic!("the operator ended: {ended:?}"),
    }
    let (end, runs) = (Instant::now(), runs.lock().unwrap());
    let begin = end - time * 3 / 4;
    let gap = |lane: char| {
        let ran = runs.get(&lane).into_iter().flatten().copied();
        let moments: Vec<_> = [begin]
            .into_iter()
            .chain(ran.filter(|at| *at > begin))
            .chain([end])
            .collect();
        moments
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .max()
            .unwrap_or_default()
    };
    LANES.map(|(letter, _)| (letter, gap(letter))).into()
}

/// Real time gets `slack` times the limits, because the machine may be busy.
fn assert_bounds(longest: &BTreeMap<char, Duration>, slack: u32) {
    for (letter, lane) in LANES {
        let bound = queue::QueueConfig::default()
            .lane(lane)
            .bound
            .expect("each lane has one");
        println!(
            "lane {}: unserved for at most {:?}, bound {bound:?}",
            lane.as_str(),
            longest[&letter]
        );
        assert!(longest[&letter] <= bound * slack, "{lane:?}: {longest:?}");
    }
}

#[test]
fn every_lane_of_an_operator_is_served_under_overload() {
    let served = move |queue| on_box(3, move |lab| longest_gaps(lab, WORK, seconds(100), queue));
    assert_bounds(&served(queue::QueueConfig::default()), 1);
    let strict = served(crate::lanes::strict());
    assert!(strict[&'s'] >= seconds(60), "strict priority starves: {strict:?}");
}

#[test]
#[ignore = "needs the real control plane"]
fn real_every_lane_of_an_operator_is_served_under_overload() {
    let queue = queue::QueueConfig::default();
    assert_bounds(
        &on_real_alone(move |lab| longest_gaps(lab, WORK, seconds(24), queue)),
        // A larger factor would exceed the observed time and prove nothing.
        8,
    );
}
