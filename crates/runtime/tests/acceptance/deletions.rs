//! Promise: deletions are respected. Children that are deleted with their owner are not recreated, even while the
//! owner's own watch does not show its deletion; a child that a user deletes is recreated.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aplomb::telemetry::Telemetry;
use aplomb::{Action, Context, Controller, Engine, Predicate, Result};
use aplomb_simulation::faults::{Fault, Match, Rule, WatchFault};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, PropagationPolicy};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::lab::{Answers, Lab, on_box, on_real, seconds, wait_until};
use crate::page::{self, Page, PageSpec};

use PropagationPolicy::{Background, Foreground, Orphan};

/// The maximum delay of the watch of the pages.
const WATCH_DELAY_SECONDS: u64 = 10;

/// An operator with its responses and the two kinds it uses.
struct Stage {
    pages: Api<Page>,
    maps: Api<ConfigMap>,
    answers: Answers,
    client: Client,
}

impl Stage {
    async fn new(lab: &Lab, late: bool) -> Self {
        page::install(&lab.user()).await.unwrap();
        let (client, faults) = lab.client("operator");
        if late {
            let lag = Fault::Watch(WatchFault::Lagged(seconds(WATCH_DELAY_SECONDS)));
            faults.add(Rule::new(lag).on(Match::watches().resource("pages")));
        }
        let answers = Answers::default();
        Self {
            pages: Api::namespaced(lab.user(), "default"),
            maps: Api::namespaced(lab.user(), "default"),
            client: answers.for_client(&client),
            answers,
        }
    }

    fn operator(&self) -> Engine {
        page::operator(self.client.clone())
    }

    /// Creates pages and waits until each has its child and is ready.
    async fn fill(&self, count: usize) {
        for number in 0..count {
            let page = Page::new(&format!("p-{number}"), spec());
            let made = || async {
                let made = self.pages.create(&PostParams::default(), &page).await;
                made.is_ok()
            };
            wait_until(seconds(10), "pages are served", made).await;
        }
        wait_until(seconds(60), "every page is ready", || async {
            let all = self.pages.list(&ListParams::default()).await.unwrap();
            all.iter().filter(|page| is_ready(page)).count() == count
        })
        .await;
    }

    async fn delete_all(&self, policy: &PropagationPolicy) {
        let parameters = DeleteParams {
            propagation_policy: Some(policy.clone()),
            ..DeleteParams::default()
        };
        let all = self.pages.list(&ListParams::default()).await.unwrap();
        for page in all {
            let name = page.name_any();
            self.pages.delete(&name, &parameters).await.unwrap();
        }
    }

    async fn is_empty(&self) -> bool {
        let all = self.pages.list(&ListParams::default()).await.unwrap();
        all.items.is_empty()
    }

    /// The existing children.
    async fn children(&self) -> Vec<ConfigMap> {
        let all = self.maps.list(&ListParams::default()).await.unwrap();
        let made = all.into_iter().filter(|map| map.name_any() != "kube-root-ca.crt");
        made.collect()
    }

    /// How often the operator has created a child since this many responses.
    fn made_since(&self, answers: usize) -> usize {
        let all = self.answers.all();
        let made = |path: &str, code: u16| code == 201 && path.contains("/configmaps");
        let since = all.iter().skip(answers);
        since.filter(|it| made(&it.path, it.code)).count()
    }

    /// How often it has read a page since this many responses.
    fn reads_since(&self, answers: usize) -> usize {
        let all = self.answers.all();
        let since = all.iter().skip(answers);
        since
            .filter(|it| it.method == http::Method::GET && it.path.contains("/pages/"))
            .count()
    }
}

fn spec() -> PageSpec {
    PageSpec {
        title: "a title".into(),
        text: String::new(),
    }
}

fn is_ready(page: &Page) -> bool {
    let status = page.status.as_ref();
    let mut conditions = status.iter().flat_map(|status| &status.conditions);
    conditions.any(|it| it.type_ == "Ready" && it.status == "True")
}

/// Runs `engine` until `scenario` ends.
async fn run_with_operator<T>(engine: Engine, scenario: impl Future<Output = T>) -> T {
    tokio::select! { biased;
        value = scenario => value,
        ended = engine.run(std::future::pending()) => panic!("the operator ended: {ended:?}"),
    }
}

/// Deletes a hundred pages. Returns how many children were created after that, and the remaining ones.
async fn deleted(
    lab: Lab,
    policy: PropagationPolicy,
    late: bool,
    operator: fn(&Stage) -> Engine,
) -> (usize, Vec<ConfigMap>) {
    let stage = Stage::new(&lab, late).await;
    let scenario = async {
        stage.fill(100).await;
        let before = stage.answers.all().len();
        stage.delete_all(&policy).await;
        // Long enough for the delayed watch to show the deletion, and for created children to be seen.
        sleep(seconds(3 * WATCH_DELAY_SECONDS)).await;
        wait_until(seconds(60), "the pages are gone", || stage.is_empty()).await;
        (stage.made_since(before), stage.children().await)
    };
    run_with_operator(operator(&stage), scenario).await
}

#[test]
fn deleted_children_are_not_recreated() {
    for policy in [Foreground, Background] {
        for late in [false, true] {
            let (named, policy) = (format!("{policy:?} {late}"), policy.clone());
            let run = on_box(1, move |lab| deleted(lab, policy, late, Stage::operator));
            let (made, left) = run;
            assert_eq!((made, left.len()), (0, 0), "{named}");
        }
    }
}

#[test]
fn orphaned_children_are_not_adopted_again() {
    for late in [false, true] {
        let (made, left) = on_box(2, move |lab| deleted(lab, Orphan, late, Stage::operator));
        assert_eq!((made, left.len()), (0, 100), "late {late}");
        let owned = |map: &&ConfigMap| !map.owner_references().is_empty();
        assert_eq!(left.iter().filter(owned).count(), 0, "late {late}");
    }
}

#[test]
#[ignore = "needs the real control plane"]
fn real_deleted_children_are_not_recreated() {
    for policy in [Foreground, Background, Orphan] {
        let (named, kept) = (format!("{policy:?}"), policy == Orphan);
        let (made, left) = on_real(|lab| deleted(lab, policy, true, Stage::operator));
        assert_eq!(made, 0, "{named}");
        assert_eq!(left.len(), if kept { 100 } else { 0 }, "{named}");
        assert!(left.iter().all(|map| map.owner_references().is_empty()));
    }
}

/// Creates a child without the checks of the writer.
async fn reconcile_without_check(page: Arc<Page>, cx: Context<Page>) -> Result<Action> {
    let name = page.name_any();
    let owner = kube::Resource::controller_owner_ref(&*page, &());
    let child = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": [owner]},
    });
    let maps: Api<ConfigMap> = Api::namespaced(cx.client(), "default");
    let parameters = PatchParams::apply("page").force();
    maps.patch(&name, &parameters, &Patch::Apply(child)).await?;
    Ok(Action::Done)
}

#[test]
fn skipping_the_owner_check_recreates_deleted_children() {
    let careless = |stage: &Stage| {
        let controller = Controller::new("page", reconcile_without_check).owns::<ConfigMap>(Predicate::always());
        Engine::new("pages", stage.client.clone()).controller(controller)
    };
    let (made, _) = on_box(1, move |lab| deleted(lab, Foreground, true, careless));
    assert!(made > 100, "{made}");
}

/// A user deletes a child. Returns how often it was created, and the reads for it.
async fn restored(lab: Lab, late: bool) -> (usize, usize, usize) {
    let stage = Stage::new(&lab, late).await;
    let scenario = async {
        stage.fill(1).await;
        let first = stage.reads_since(0);
        let before = stage.answers.all().len();
        let parameters = DeleteParams::default();
        stage.maps.delete("p-0", &parameters).await.unwrap();
        wait_until(seconds(2), "the child exists again", || async {
            stage.maps.get_opt("p-0").await.unwrap().is_some()
        })
        .await;
        sleep(seconds(60)).await;
        (first, stage.made_since(before), stage.reads_since(before))
    };
    run_with_operator(stage.operator(), scenario).await
}

#[test]
fn manually_deleted_child_is_recreated_with_one_read() {
    for late in [false, true] {
        assert_eq!(on_box(3, move |lab| restored(lab, late)), (0, 1, 1));
    }
}

/// A page is deleted and recreated at once: the new one gets its child.
async fn replaced(lab: Lab, late: bool, policy: PropagationPolicy) {
    let stage = Stage::new(&lab, late).await;
    let scenario = async {
        stage.fill(1).await;
        let old = stage.pages.get("p-0").await.unwrap().uid();
        stage.delete_all(&policy).await;
        let page = Page::new("p-0", spec());
        wait_until(seconds(60), "the name is free", || async {
            let made = stage.pages.create(&PostParams::default(), &page).await;
            made.is_ok()
        })
        .await;
        wait_until(seconds(60), "the new page is ready", || async {
            is_ready(&stage.pages.get("p-0").await.unwrap())
        })
        .await;
        let new = stage.pages.get("p-0").await.unwrap().uid();
        assert_ne!(old, new);
        let child = stage.maps.get("p-0").await.unwrap();
        assert_eq!(Some(&child.owner_references()[0].uid), new.as_ref());
    };
    run_with_operator(stage.operator(), scenario).await;
}

#[test]
fn recreated_page_has_a_child_of_its_own() {
    for late in [false, true] {
        for policy in [Foreground, Background] {
            on_box(4, move |lab| replaced(lab, late, policy));
        }
    }
}

const FINALIZER: &str = "example.com/cleanup";

/// Has a finalizer and, when it is deleted, tries to create its child again.
async fn reconcile_finalized(page: Arc<Page>, cx: Context<Page>) -> Result<Action> {
    let child = ConfigMap {
        metadata: ObjectMeta {
            name: page.metadata.name.clone(),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    if page.metadata.deletion_timestamp.is_none() {
        cx.add_finalizer(FINALIZER).await?;
        cx.apply(child).await?;
        return Ok(Action::Done);
    }
    let refused = cx.apply(child).await.unwrap_err().to_string();
    cx.status(json!({ "words": 7 }));
    if page.annotations().contains_key("example.com/done") {
        assert!(refused.contains("is being deleted"), "{refused}");
        cx.remove_finalizer(FINALIZER).await?;
    }
    Ok(Action::Done)
}

/// A page with a finalizer of the operator and one of another writer is deleted.
async fn cleaned_up(lab: Lab, declared: bool) {
    let stage = Stage::new(&lab, false).await;
    let controller = Controller::new("page", reconcile_finalized).owns::<ConfigMap>(Predicate::always());
    let controller = match declared {
        true => controller.finalizer(FINALIZER),
        false => controller,
    };
    let engine = Engine::new("pages", stage.client.clone()).controller(controller);
    let patch = |patch: Value| {
        let pages = stage.pages.clone();
        async move {
            let parameters = PatchParams::default();
            pages.patch("p-0", &parameters, &Patch::Merge(patch)).await.unwrap()
        }
    };
    let scenario = async {
        stage.fill(1).await;
        let both = json!([FINALIZER, "example.com/other"]);
        patch(json!({ "metadata": { "finalizers": both } })).await;
        let before = stage.answers.all().len();
        stage.delete_all(&Foreground).await;
        wait_until(seconds(5), "the status shows the deletion", || async {
            let page = stage.pages.get("p-0").await.unwrap();
            page.status.unwrap().words == 7
        })
        .await;
        patch(json!({ "metadata": { "annotations": { "example.com/done": "" } } })).await;
        wait_until(seconds(5), "the finalizer is released", || async {
            let page = stage.pages.get("p-0").await.unwrap();
            // The operator has received its response too.
            let all = stage.answers.all().split_off(before);
            let released = all.iter().any(|it| it.is_write() && it.path.ends_with("/pages/p-0"));
            released && !page.finalizers().iter().any(|it| it == FINALIZER)
        })
        .await;
        let written = stage.answers.writes().len();
        patch(json!({ "metadata": { "annotations": { "example.com/more": "" } } })).await;
        sleep(seconds(60)).await;
        let more = stage.answers.writes().split_off(written);
        assert!(more.is_empty(), "no writes after the release: {more:?}");
        assert_eq!(stage.made_since(before), 0);
        patch(json!({ "metadata": { "finalizers": [] } })).await;
        wait_until(seconds(10), "the page is gone", || stage.is_empty()).await;
    };
    run_with_operator(engine, scenario).await;
}

#[test]
fn a_finalizer_of_the_controller_still_has_its_passes() {
    on_box(5, |lab| cleaned_up(lab, true));
    on_box(5, |lab| cleaned_up(lab, false));
}

#[test]
#[ignore = "needs the real control plane"]
fn real_a_finalizer_of_the_controller_still_has_its_passes() {
    on_real(|lab| cleaned_up(lab, true));
    on_real(|lab| cleaned_up(lab, false));
}

/// The pages of a restarted operator are deleted before their watch shows it.
async fn deleted_after_a_restart(lab: Lab) -> (usize, usize) {
    let stage = Stage::new(&lab, true).await;
    run_with_operator(stage.operator(), stage.fill(20)).await;
    let scenario = async {
        sleep(seconds(5)).await;
        let before = stage.answers.all().len();
        stage.delete_all(&Foreground).await;
        sleep(seconds(3 * WATCH_DELAY_SECONDS)).await;
        (stage.made_since(before), stage.children().await.len())
    };
    run_with_operator(stage.operator(), scenario).await
}

#[test]
fn deleted_children_are_not_recreated_after_a_restart() {
    assert_eq!(on_box(7, deleted_after_a_restart), (0, 0));
}

/// Applies its child only after a while.
async fn slow(page: Arc<Page>, cx: Context<Page>) -> Result<Action> {
    sleep(seconds(4)).await;
    let metadata = ObjectMeta {
        name: page.metadata.name.clone(),
        ..ObjectMeta::default()
    };
    cx.apply(ConfigMap {
        metadata,
        ..ConfigMap::default()
    })
    .await?;
    Ok(Action::Done)
}

/// A page whose child is deleted before the restarted operator has seen either in a pass.
async fn deleted_before_the_first_pass(lab: Lab, silent: bool) -> (usize, usize) {
    let stage = Stage::new(&lab, true).await;
    let operator = || {
        let controller = Controller::new("page", slow).owns::<ConfigMap>(Predicate::always());
        let controller = match silent {
            true => controller.without_status(),
            false => controller,
        };
        Engine::new("pages", stage.client.clone()).controller(controller)
    };
    let made = async {
        let page = Page::new("p-0", spec());
        wait_until(seconds(10), "pages are served", || async {
            let made = stage.pages.create(&PostParams::default(), &page).await;
            made.is_ok()
        })
        .await;
        wait_until(seconds(60), "there is a child", || async {
            stage.children().await.len() == 1
        })
        .await;
        sleep(seconds(5)).await;
    };
    run_with_operator(operator(), made).await;
    let scenario = async {
        sleep(seconds(1)).await;
        let before = stage.answers.all().len();
        stage.delete_all(&Foreground).await;
        sleep(seconds(3 * WATCH_DELAY_SECONDS)).await;
        (stage.made_since(before), stage.children().await.len())
    };
    run_with_operator(operator(), scenario).await
}

#[test]
fn a_child_that_went_before_the_first_pass_of_a_restarted_operator_stays_away() {
    for silent in [false, true] {
        let run = on_box(9, move |lab| deleted_before_the_first_pass(lab, silent));
        assert_eq!(run, (0, 0), "silent: {silent}");
    }
}

/// The passes over a page that is being deleted and waits for another finalizer.
async fn passes_in_a_deletion(lab: Lab) -> usize {
    let stage = Stage::new(&lab, false).await;
    let passes = Arc::new(AtomicUsize::new(0));
    let counted = passes.clone();
    let pass = move |page: Arc<Page>, _: Context<Page>| {
        let late = page.metadata.deletion_timestamp.is_some();
        counted.fetch_add(usize::from(late), Ordering::Relaxed);
        async { Ok(Action::Done) }
    };
    let controller = Controller::new("page", pass).resync(seconds(10));
    let engine = Engine::new("pages", stage.client.clone()).controller(controller);
    let scenario = async {
        stage.fill(1).await;
        let other = json!({ "metadata": { "finalizers": ["example.com/other"] } });
        let parameters = PatchParams::default();
        let other = Patch::Merge(other);
        let patched = stage.pages.patch("p-0", &parameters, &other);
        patched.await.unwrap();
        stage.delete_all(&Background).await;
        sleep(seconds(60)).await;
        passes.load(Ordering::Relaxed)
    };
    run_with_operator(engine, scenario).await
}

#[test]
fn an_object_that_waits_for_the_finalizers_of_others_is_not_reconciled() {
    assert_eq!(on_box(10, passes_in_a_deletion), 0);
}

/// New pages cost no read of their owner, nor do resyncs of those that are ready.
#[test]
fn no_read_is_made_while_no_child_is_recreated() {
    let (reads, creations) = on_box(8, |lab| async move {
        let stage = Stage::new(&lab, false).await;
        let controller = page::controller().resync(seconds(30));
        let engine = Engine::new("pages", stage.client.clone())
            .configure(|settings| settings.telemetry = Telemetry::default())
            .controller(controller);
        let scenario = async {
            stage.fill(50).await;
            sleep(seconds(300)).await;
            let paths: BTreeSet<String> = stage.answers.writes().into_iter().map(|it| it.path).collect();
            assert_eq!(paths.len(), 100, "a child and a status for each");
            (stage.reads_since(0), stage.answers.writes().len())
        };
        run_with_operator(engine, scenario).await
    });
    assert_eq!((reads, creations), (0, 100));
}
