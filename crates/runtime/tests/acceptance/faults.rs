//! Promise: a reconcile that panics, one that hangs and one that returns garbage are faults of their own
//! key. Every other key is served as if they were not there.

use std::sync::Arc;
use std::time::Duration;

use aplomb::{Class, Context, Controller, Engine, Error, Verdict};
use aplomb_simulation::Simulation;
use aplomb_simulation::faults::{Fault, Latency, Rule};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::lab::{Lab, in_world, seconds, until};
use crate::page::{self, Page, PageSpec};

/// Does what the title says.
async fn actor(page: Arc<Page>, cx: Context<Page>) -> aplomb::Result<Verdict> {
    match page.spec.title.as_str() {
        "panics" => panic!("as the title says"),
        title if title.starts_with("hangs") => std::future::pending().await,
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

/// A page of each kind of fault.
const BAD: &[&str] = &["panics", "hangs", "garbage", "invalid"];

/// The operator, and the bad pages that it has before anything else.
struct Company {
    bad: &'static [&'static str],
    workers: usize,
    deadline: Duration,
    /// After which a run lends its place.
    lend: Option<Duration>,
}

impl Company {
    fn pages(lab: &Lab) -> Api<Page> {
        Api::namespaced(lab.user(), "default")
    }

    /// The world it is in.
    fn world(&self) -> Simulation {
        let world = Simulation::new(7);
        match self.bad.contains(&"panics") {
            true => world.expect_panic("as the title says"),
            false => world,
        }
    }

    /// What `scenario` finds while the operator runs.
    async fn keep<T>(self, lab: &Lab, scenario: impl Future<Output = T>) -> T {
        page::install(&lab.user()).await.unwrap();
        for title in self.bad {
            create(&Self::pages(lab), title, title).await;
        }
        let controller = Controller::new("actor", actor)
            .workers(self.workers)
            .deadline(self.deadline);
        let controller = controller.options(|options| options.lend_after = self.lend);
        let (client, faults) = lab.client("operator");
        // A run takes time, so that one that is in the way of another shows.
        let network = Fault::Latency(Latency::Fixed(Duration::from_millis(20)));
        faults.add(Rule::new(network));
        let engine = Engine::new("actor.example.com", client).controller(controller);
        tokio::select! { biased;
            found = scenario => found,
            ended = engine.run(std::future::pending()) => panic!("the operator ended: {ended:?}"),
        }
    }

    /// How long the slowest of sixty good pages waits; `None` if one is not served within a minute.
    fn slowest(self) -> Option<Duration> {
        in_world(self.world(), |lab| async move {
            let pages = Self::pages(&lab);
            self.keep(&lab, async {
                // The bad ones are on before the good ones come.
                sleep(seconds(1)).await;
                slowest_of_good(&pages).await
            })
            .await
        })
    }
}

async fn slowest_of_good(pages: &Api<Page>) -> Option<Duration> {
    let mut slowest = Duration::ZERO;
    for round in 0..60 {
        let name = format!("good-{round}");
        create(pages, &name, &name).await;
        let ready = until(seconds(120), "a good page is served", || async {
            let page = pages.get(&name).await.unwrap();
            condition(&page, "Ready").is_some_and(|(status, _)| status == "True")
        });
        slowest = slowest.max(timeout(seconds(60), ready).await.ok()?);
        sleep(seconds(1)).await;
    }
    Some(slowest)
}

#[test]
fn bad_keys_harm_no_others() {
    let company = |bad| Company {
        bad,
        workers: 2,
        deadline: seconds(30),
        lend: None,
    };
    let among = company(BAD).slowest().unwrap();
    let alone = company(&[]).slowest().unwrap();
    println!("the slowest good key: {among:?} among bad ones, {alone:?} without");
    assert!(alone <= Duration::from_millis(100), "{alone:?}");
    // The step in which the wait is measured.
    let step = Duration::from_millis(10);
    assert!(among <= alone + step, "{among:?}, without bad: {alone:?}");
}

#[test]
fn a_key_that_hangs_has_the_only_worker_until_its_deadline() {
    let company = |deadline| Company {
        bad: &["hangs"],
        workers: 1,
        deadline,
        lend: None,
    };
    let slowest = company(seconds(2)).slowest().unwrap();
    assert!(slowest > seconds(1), "they had to wait for it: {slowest:?}");
    let limit = seconds(2) + Duration::from_millis(100);
    assert!(slowest <= limit, "{slowest:?}");
    let stuck = company(seconds(3_600)).slowest();
    assert_eq!(stuck, None, "without a deadline nobody else is served");
}

#[test]
fn a_key_that_panics_is_quarantined_until_it_is_edited() {
    let company = Company {
        bad: BAD,
        workers: 2,
        deadline: seconds(30),
        lend: None,
    };
    in_world(company.world(), |lab| async move {
        let pages = Company::pages(&lab);
        let stalled = || async { condition(&pages.get("panics").await.ok()?, "Stalled") };
        let scenario = async {
            let quarantined = Some(("True".to_owned(), "Quarantined".to_owned()));
            until(seconds(60), "the key is quarantined", || async {
                stalled().await == quarantined
            })
            .await;
            let mend = Patch::Merge(json!({ "spec": { "title": "mended" } }));
            let mended = pages.patch("panics", &PatchParams::default(), &mend).await;
            mended.expect("the user's requests meet no faults");
            until(seconds(2), "an edit lifts the quarantine", || async {
                stalled().await.is_none()
            })
            .await;
        };
        company.keep(&lab, scenario).await;
    });
}

/// Objects that wait for something dead, more of them than there are workers.
const CROWD: &[&str] = &["hangs", "hangs-too", "hangs-still"];

#[test]
fn runs_that_hang_lend_their_places() {
    let company = |lend| Company {
        bad: CROWD,
        workers: 1,
        deadline: seconds(3_600),
        lend,
    };
    let slowest = company(Some(seconds(1))).slowest().unwrap();
    assert!(slowest <= seconds(1) * 4, "{slowest:?}");
    assert_eq!(company(None).slowest(), None, "nobody else is served");
}
