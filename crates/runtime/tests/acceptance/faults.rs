//! Promise: a reconcile that panics, hangs or returns invalid data affects only its own
//! key. All other keys are served as if it did not exist.

use std::sync::Arc;
use std::time::Duration;

use aplomb::{Action, Context, Controller, Engine, Error, ErrorClass};
use aplomb_simulation::Simulation;
use aplomb_simulation::faults::{Fault, Latency, Rule};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::lab::{Lab, in_world, seconds, wait_until};
use crate::page::{self, Page, PageSpec};

/// Acts as the title says.
async fn reconcile_with_faults(page: Arc<Page>, cx: Context<Page>) -> aplomb::Result<Action> {
    match page.spec.title.as_str() {
        "panics" => panic!("as the title says"),
        title if title.starts_with("hangs") => std::future::pending().await,
        "garbage" => {
            cx.status(json!("not an object"));
            Err(Error::new(ErrorClass::Fault, "\u{0} garbage \u{7f}"))
        }
        "invalid" => {
            cx.status(json!({ "words": "not a number" }));
            Ok(Action::Done)
        }
        words => {
            cx.status(json!({ "words": words.len() }));
            Ok(Action::Done)
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
    wait_until(seconds(10), "pages are served", || async {
        pages.create(&PostParams::default(), &page).await.is_ok()
    })
    .await;
}

fn condition(page: &Page, kind: &str) -> Option<(String, String)> {
    let status = page.status.as_ref()?;
    let found = status.conditions.iter().find(|condition| condition.type_ == kind)?;
    Some((found.status.clone(), found.reason.clone()))
}

/// A page for each type of fault.
const FAULTY_PAGES: &[&str] = &["panics", "hangs", "garbage", "invalid"];

/// An operator that has the bad pages before all others.
struct FaultyOperator {
    faulty_pages: &'static [&'static str],
    workers: usize,
    deadline: Duration,
    /// After how long a run frees its place for another.
    lend_after: Option<Duration>,
}

impl FaultyOperator {
    fn pages(lab: &Lab) -> Api<Page> {
        Api::namespaced(lab.user(), "default")
    }

    /// The world it runs in.
    fn world(&self) -> Simulation {
        let world = Simulation::new(7);
        match self.faulty_pages.contains(&"panics") {
            true => world.expect_panic("as the title says"),
            false => world,
        }
    }

    /// The result of `scenario` while the operator runs.
    async fn run_scenario<T>(self, lab: &Lab, scenario: impl Future<Output = T>) -> T {
        page::install(&lab.user()).await.unwrap();
        for title in self.faulty_pages {
            create(&Self::pages(lab), title, title).await;
        }
        let controller = Controller::new("actor", reconcile_with_faults)
            .workers(self.workers)
            .deadline(self.deadline);
        let controller = controller.configure(|options| options.lend_after = self.lend_after);
        let (client, faults) = lab.client("operator");
        // Each run takes time, so that a delay by another run is visible.
        let network = Fault::Latency(Latency::Fixed(Duration::from_millis(20)));
        faults.add(Rule::new(network));
        let engine = Engine::new("actor.example.com", client).controller(controller);
        tokio::select! { biased;
            found = scenario => found,
            ended = engine.run(std::future::pending()) => panic!("the operator ended: {ended:?}"),
        }
    }

    /// The wait of the slowest of sixty good pages; `None` if one is not served within a minute.
    fn slowest(self) -> Option<Duration> {
        in_world(self.world(), |lab| async move {
            let pages = Self::pages(&lab);
            self.run_scenario(&lab, async {
                // The bad pages run before the good ones are created.
                sleep(seconds(1)).await;
                slowest_healthy_page(&pages).await
            })
            .await
        })
    }
}

async fn slowest_healthy_page(pages: &Api<Page>) -> Option<Duration> {
    let mut slowest = Duration::ZERO;
    for round in 0..60 {
        let name = format!("good-{round}");
        create(pages, &name, &name).await;
        let ready = wait_until(seconds(120), "a good page is served", || async {
            let page = pages.get(&name).await.unwrap();
            condition(&page, "Ready").is_some_and(|(status, _)| status == "True")
        });
        slowest = slowest.max(timeout(seconds(60), ready).await.ok()?);
        sleep(seconds(1)).await;
    }
    Some(slowest)
}

#[test]
fn faulty_keys_do_not_delay_others() {
    let company = |bad| FaultyOperator {
        faulty_pages: bad,
        workers: 2,
        deadline: seconds(30),
        lend_after: None,
    };
    let among = company(FAULTY_PAGES).slowest().unwrap();
    let alone = company(&[]).slowest().unwrap();
    println!("the slowest good key: {among:?} among bad ones, {alone:?} without");
    assert!(alone <= Duration::from_millis(100), "{alone:?}");
    // The resolution of the measured wait.
    let step = Duration::from_millis(10);
    assert!(among <= alone + step, "{among:?}, without bad: {alone:?}");
}

#[test]
fn a_key_that_hangs_has_the_only_worker_until_its_deadline() {
    let company = |deadline| FaultyOperator {
        faulty_pages: &["hangs"],
        workers: 1,
        deadline,
        lend_after: None,
    };
    let slowest = company(seconds(2)).slowest().unwrap();
    assert!(slowest > seconds(1), "good keys had to wait: {slowest:?}");
    let limit = seconds(2) + Duration::from_millis(100);
    assert!(slowest <= limit, "{slowest:?}");
    let stuck = company(seconds(3_600)).slowest();
    assert_eq!(stuck, None, "without a deadline no other key is served");
}

#[test]
fn a_key_that_panics_is_quarantined_until_it_is_edited() {
    let company = FaultyOperator {
        faulty_pages: FAULTY_PAGES,
        workers: 2,
        deadline: seconds(30),
        lend_after: None,
    };
    in_world(company.world(), |lab| async move {
        let pages = FaultyOperator::pages(&lab);
        let stalled = || async { condition(&pages.get("panics").await.ok()?, "Stalled") };
        let scenario = async {
            let quarantined = Some(("True".to_owned(), "Quarantined".to_owned()));
            wait_until(seconds(60), "the key is quarantined", || async {
                stalled().await == quarantined
            })
            .await;
            let mend = Patch::Merge(json!({ "spec": { "title": "mended" } }));
            let mended = pages.patch("panics", &PatchParams::default(), &mend).await;
            mended.expect("the user's requests meet no faults");
            wait_until(seconds(2), "an edit ends the quarantine", || async {
                stalled().await.is_none()
            })
            .await;
        };
        company.run_scenario(&lab, scenario).await;
    });
}

/// Objects that wait for something dead, more of them than there are workers.
const HANGING_PAGES: &[&str] = &["hangs", "hangs-too", "hangs-still"];

#[test]
fn hanging_runs_lend_their_workers() {
    let company = |lend| FaultyOperator {
        faulty_pages: HANGING_PAGES,
        workers: 1,
        deadline: seconds(3_600),
        lend_after: lend,
    };
    let slowest = company(Some(seconds(1))).slowest().unwrap();
    assert!(slowest <= seconds(1) * 4, "{slowest:?}");
    assert_eq!(company(None).slowest(), None, "no other key is served");
}
