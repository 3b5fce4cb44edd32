//! A whole operator whose writes are rejected: a thousand objects with continuous edits, and no call
//! before the given time.

use std::time::Duration;

use aplomb::ratelimit::LimitConfig;
use aplomb_simulation::faults::{Fault, Match, Rule};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::lab::{self, Answer, Answers, Lab, on_box, seconds};
use crate::page::{self, Page};

const RATE: f64 = 40.0;
const CLOSED: u64 = 30;

/// Edits one page after another, so that every one of them has an event while it waits.
async fn edit(pages: &Api<Page>, many: usize) {
    for number in (0..many).cycle() {
        let text = Patch::Merge(json!({"spec": {"text": format!("edit {number}")}}));
        let name = format!("page-{number}");
        let params = PatchParams::default();
        pages.patch(&name, &params, &text).await.unwrap();
        sleep(Duration::from_millis(20)).await;
    }
}

async fn create(pages: &Api<Page>, many: usize) {
    for number in 0..many {
        let page = json!({
            "apiVersion": "example.com/v1", "kind": "Page",
            "metadata": {"name": format!("page-{number}")}, "spec": {"title": "one of many"},
        });
        let page = serde_json::from_value(page).unwrap();
        pages.create(&PostParams::default(), &page).await.unwrap();
    }
}

/// The calls of an operator with this many objects and this budget while every write is rejected for half a minute,
/// and after; and when the rejections began.
async fn refused(lab: Lab, many: usize, budget: LimitConfig) -> (Instant, Vec<Answer>) {
    let (client, faults) = lab.client("operator");
    let pages = lab::page(&lab).await;
    create(&pages, many).await;
    let answers = Answers::default();
    let operator = page::operator(answers.for_client(&client));
    let operator = operator.configure(|settings| settings.api_limit_config = budget);
    let refusal = Fault::TooManyRequestsText {
        retry_after: CLOSED as u32,
    };
    let begin = Instant::now();
    faults.add(Rule::new(refusal).on(Match::writes()));
    let scenario = async {
        let editing = tokio::time::timeout(seconds(CLOSED), edit(&pages, many));
        assert!(editing.await.is_err());
        faults.clear();
        while !all_ready(&pages).await {
            assert!(begin.elapsed() < seconds(300), "not all are ready");
            sleep(seconds(5)).await;
        }
    };
    tokio::select! { biased;
        () = scenario => {}
        ended = operator.run(std::future::pending()) => panic!("the operator ended: {ended:?}"),
    }
    (begin, answers.all())
}

async fn all_ready(pages: &Api<Page>) -> bool {
    let pages = pages.list(&ListParams::default()).await.unwrap();
    pages.items.iter().all(ready)
}

fn ready(page: &Page) -> bool {
    let conditions = page.status.iter().flat_map(|status| &status.conditions);
    let mut ready = conditions.filter(|condition| condition.type_ == "Ready");
    ready.any(|condition| condition.status == "True")
}

/// Writes by the time of their response, since the rejections began.
fn writes(begin: Instant, answers: &[Answer]) -> Vec<(Duration, u16)> {
    let writes = answers.iter().filter(|answer| answer.is_write());
    writes.map(|answer| (answer.at - begin, answer.code)).collect()
}

fn budget() -> LimitConfig {
    LimitConfig {
        rate: RATE,
        burst: 100,
        ..LimitConfig::api_server()
    }
}

#[test]
fn throttled_operator_pauses_and_then_stays_within_its_rate() {
    let (begin, answers) = on_box(6, |lab| refused(lab, 1000, budget()));
    let writes = writes(begin, &answers);
    let first = writes.iter().find(|(_, code)| *code == 429).expect("a refusal").0;
    let reset = first + seconds(CLOSED);
    let early = writes.iter().filter(|(at, _)| *at > first && *at < reset);
    assert_eq!(early.count(), 0);
    let after: Vec<_> = writes.iter().filter(|(at, _)| *at >= reset).collect();
    assert!(after.len() >= 2000, "one child and one status per page");
    for (number, (at, code)) in (1..).zip(&after) {
        assert_ne!(*code, 429);
        let most = RATE * (*at - reset).as_secs_f64();
        assert!(f64::from(number) <= most + 0.1, "{number} writes by {at:?}");
    }

    let deaf = LimitConfig {
        longest_wait: Duration::ZERO,
        ramp: Duration::ZERO,
        ..budget()
    };
    let (begin, answers) = on_box(6, |lab| refused(lab, 200, deaf));
    let refusals = self::writes(begin, &answers)
        .into_iter()
        .filter(|(_, code)| *code == 429);
    let refusals = refusals.count();
    assert!(refusals > 100, "without waiting, {refusals} calls are rejected");
}
