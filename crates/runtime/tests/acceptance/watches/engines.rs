//! The same through an engine: an input whose watch fails delays nothing else, and a watch that is
//! black-holed is visible in the state of the engine.

use std::collections::BTreeMap;
use std::future::pending;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use aplomb::informer::Scope;
use aplomb::{Engine, Predicate};
use aplomb_simulation::faults::{Fault, Latency, Match, Rule, WatchFault};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::lab::{Lab, on_box, page, seconds, wait_until};
use crate::page;

fn operator(client: Client, required: bool) -> Engine {
    let (all, lens) = (Scope::default(), Predicate::always());
    let controller = page::controller();
    let controller = if required {
        controller.watches(all, lens, |_: &Secret, _| Vec::new())
    } else {
        controller.watches_optional(all, lens, |_: &Secret, _| Vec::new())
    };
    Engine::new("pages.example.com", client).controller(controller)
}

/// From each of five edits to the moment its effect is written.
async fn edits(lab: &Lab) -> Vec<Duration> {
    let pages = page(lab).await;
    let maps: Api<ConfigMap> = Api::namespaced(lab.user(), "default");
    let mut latencies = Vec::new();
    for title in ["one", "two", "three", "four", "five"] {
        sleep(seconds(17)).await;
        let edit = Patch::Merge(json!({ "spec": { "title": title } }));
        let edited = pages.patch("front", &PatchParams::default(), &edit).await;
        edited.expect("the user's requests meet no faults");
        let written = wait_until(seconds(60), "the edit is carried out", || async {
            let map = maps.get("front").await.ok();
            let data = map.and_then(|map| map.data).unwrap_or_default();
            data.values().any(|html| html.contains(title))
        });
        latencies.push(written.await);
    }
    latencies
}

/// The latencies of five edits, with the watch of the secrets failing in this time or not.
fn with_failing(from: Option<Duration>, required: bool) -> Vec<Duration> {
    on_box(9, move |lab| async move {
        let (client, faults) = lab.client("operator");
        if let Some(from) = from {
            let rule = Rule::new(Fault::InternalError).on(Match::any().resource("secrets"));
            faults.add(rule.between(from, seconds(3600)));
            let cut = Rule::new(Fault::Watch(WatchFault::Dropped(from)));
            faults.add(cut.on(Match::watches().resource("secrets")));
        }
        tokio::select! { biased;
            latencies = edits(&lab) => latencies,
            ended = operator(client, required).run(pending()) => panic!("it ended: {ended:?}"),
        }
    })
}

#[test]
fn an_input_whose_watch_always_fails_delays_no_other_trigger() {
    let alone = with_failing(None, false);
    assert_eq!(with_failing(Some(Duration::ZERO), false), alone);
    assert_eq!(with_failing(Some(seconds(5)), true), alone);
}

#[test]
fn a_required_input_that_never_comes_is_named() {
    let (error, after) = on_box(9, |lab| async move {
        let (client, faults) = lab.client("operator");
        faults.add(Rule::new(Fault::InternalError).on(Match::any().resource("secrets")));
        let _pages = page(&lab).await;
        let begin = Instant::now();
        let engine = operator(client, true).configure(|settings| {
            settings.sync_deadline = seconds(20);
        });
        let error = engine.run(pending()).await.unwrap_err();
        (error.to_string(), begin.elapsed())
    });
    let expected = "watch of Secret in all namespaces is not ready";
    assert!(error.starts_with(expected), "{error}");
    assert_eq!(after, seconds(20));
}

/// The child is deleted ten seconds after its watch was black-holed: when it exists again.
#[test]
fn engine_recovers_a_black_holed_watch_within_90_seconds() {
    let healed = on_box(11, |lab| async move {
        let (client, faults) = lab.client("operator");
        let hole = Fault::Watch(WatchFault::BlackHoled(seconds(20)));
        let children = Match::watches().resource("configmaps");
        faults.add(Rule::new(hole).on(children).once());
        let scenario = async {
            let _pages = page(&lab).await;
            let maps: Api<ConfigMap> = Api::namespaced(lab.user(), "default");
            let there = || async { maps.get_opt("front").await.unwrap().is_some() };
            sleep(seconds(30)).await;
            assert!(there().await);
            let deleted = maps.delete("front", &DeleteParams::default()).await;
            deleted.expect("the user's requests meet no faults");
            seconds(10) + wait_until(seconds(200), "the child exists again", there).await
        };
        tokio::select! { biased;
            healed = scenario => healed,
            ended = page::operator(client).run(pending()) => panic!("it ended: {ended:?}"),
        }
    });
    assert!(healed < seconds(90), "{healed:?}");
}

/// The status and the body of a response of the engine, requested over a socket as a kubelet does. Virtual
/// time stands still during the request, because it does while a blocking task runs.
async fn http_get(address: SocketAddr, path: &str) -> (String, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let asked = spawn_blocking(move || {
        let (mut stream, mut answer) = (TcpStream::connect(address)?, String::new());
        stream.write_all(request.as_bytes())?;
        stream.read_to_string(&mut answer)?;
        io::Result::Ok(answer)
    });
    let answer = asked.await.unwrap().unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].to_owned(), body.to_owned())
}

/// Time since the last data of each watch, by its name.
async fn ages(address: SocketAddr) -> BTreeMap<String, f64> {
    let (_, state) = http_get(address, "/debug/state.json").await;
    let state: Value = serde_json::from_str(&state).unwrap();
    let watches = state["watches"].as_array().unwrap();
    let age = |watch: &Value| {
        let name = watch["name"].as_str().unwrap().to_owned();
        (name, watch["age"].as_f64().unwrap())
    };
    watches.iter().map(age).collect()
}

/// The black-holed watch, as the engine names it.
const LOST: &str = "ConfigMap in all namespaces";

async fn assert_only_lost_watch_is_old(address: SocketAddr) {
    let ages = ages(address).await;
    assert!(ages[LOST] > 60.0, "{ages:?}");
    let mut others = ages.iter().filter(|(name, _)| *name != LOST);
    assert!(others.all(|(_, age)| *age < 61.0), "{ages:?}");
}

async fn assert_only_lost_watch_is_named(address: SocketAddr) {
    let (_, text) = http_get(address, "/readyz").await;
    let mut failed = text.lines().filter(|line| line.starts_with("[-]"));
    let expected = format!("[-]watch/{LOST} failed: ");
    assert!(failed.all(|line| line.starts_with(&expected)), "{text}");
    let (live, text) = http_get(address, "/livez").await;
    assert_eq!(live, "200", "a restart would not help: {text}");
}

/// The responses of an engine whose watch of the children is black-holed after 20 s, with every request that
/// would make up for it, until five minutes have passed.
async fn assert_reported(lab: &Lab, address: SocketAddr) {
    let _pages = page(lab).await;
    let begin = Instant::now();
    // Once a second, because every connection leaves a port behind that is not free for a while.
    let answers = |code: &'static str| async move {
        sleep(seconds(1)).await;
        http_get(address, "/readyz").await.0 == code
    };
    sleep(seconds(15)).await;
    assert!(answers("200").await);
    sleep(seconds(70)).await;
    assert_only_lost_watch_is_old(address).await;
    wait_until(seconds(30), "readyz fails", || answers("500")).await;
    assert_only_lost_watch_is_named(address).await;
    sleep(seconds(300).saturating_sub(begin.elapsed())).await;
    // The next attempt is at most 40 s away, and the first data then, a bookmark or the end, takes
    // another minute.
    wait_until(seconds(100), "readyz passes again", || answers("200")).await;
}

#[test]
fn black_holed_watch_is_reported_by_the_engine() {
    on_box(13, |lab| async move {
        let (client, faults) = lab.client("operator");
        let hole = Fault::Watch(WatchFault::BlackHoled(seconds(20)));
        let watches = Match::watches().resource("configmaps");
        faults.add(Rule::new(hole).on(watches).once());
        let lost = Fault::Latency(Latency::Fixed(seconds(3_600)));
        faults.add(
            Rule::new(lost)
                .on(Match::any().resource("configmaps"))
                .between(seconds(20), seconds(300)),
        );
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let engine = page::operator(client).configure(|settings| settings.admin = Some(address));
        tokio::select! { biased;
            () = assert_reported(&lab, address) => {}
            ended = engine.run(pending()) => panic!("it ended: {ended:?}"),
        }
    });
}
