//! Events reach the server in the background, in small numbers, and no reconcile waits for one.

use std::sync::Arc;
use std::time::Duration;

use aplomb::clock::Clock;
use aplomb::events::{EventNote, EventPublisher, EventRecorder, EventReporter};
use aplomb::telemetry::Telemetry;
use aplomb::{Action, Context, Controller, Engine};
use aplomb_apiserver::call::Verb;
use aplomb_controlplane::{ControlPlane, Options};
use aplomb_simulation::Simulation;
use aplomb_simulation::faults::{Fault, Latency, Match, Rule};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::events::v1::Event;
use kube::{Api, Client, ResourceExt};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::lab::{Lab, on_box, page, seconds, wait_until};
use crate::page::Page;

/// A recorder whose publisher is not running yet.
fn recorder(client: &Client) -> (EventRecorder, EventPublisher, Telemetry) {
    let telemetry = Telemetry::default();
    let reporter = EventReporter {
        controller: "aplomb.dev/demo".to_owned(),
        instance: "demo-0".to_owned(),
    };
    let clock = Clock::system();
    let (recorder, publisher) = EventRecorder::new(client.clone(), reporter, telemetry.clone(), clock);
    (recorder, publisher, telemetry)
}

async fn namespace(client: &Client) -> Namespace {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.get("default").await.unwrap()
}

async fn events(client: &Client) -> Vec<Event> {
    let events: Api<Event> = Api::namespaced(client.clone(), "default");
    let mine = |event: &Event| event.reporting_instance.as_deref() == Some("demo-0");
    let listed = events.list(&Default::default()).await.unwrap();
    listed.items.into_iter().filter(mine).collect()
}

/// A hundred of the same and a hundred that differ, about one object.
async fn a_flood(client: Client) -> (Vec<Event>, String) {
    let about = namespace(&client).await;
    let (recorder, publisher, telemetry) = recorder(&client);
    let shutdown = CancellationToken::new();
    for number in 0..100 {
        recorder.publish(&about, EventNote::normal("Same", "Test", "again"));
        recorder.publish(&about, EventNote::warning("Other", "Test", format!("number {number}")));
    }
    shutdown.cancel();
    let flushed = timeout(Duration::from_secs(30), publisher.run(shutdown)).await;
    flushed.expect("queued Events are written before the end");
    (events(&client).await, telemetry.text())
}

fn assert_series((events, metrics): (Vec<Event>, String)) {
    let same: Vec<&Event> = events
        .iter()
        .filter(|event| event.reason.as_deref() == Some("Same"))
        .collect();
    assert_eq!(same.len(), 1);
    let series = same[0].series.as_ref().expect("the Events became a series");
    assert_eq!(series.count, 100);
    // Of 25 calls, one created the Event above and one made it a series.
    assert_eq!(events.len() - 1, 23);
    let spam = r#"aplomb_events_dropped_total{reason="spam"} 77"#;
    assert!(metrics.contains(spam), "{metrics}");
}

#[test]
fn a_flood_becomes_a_series_and_a_few_events() {
    let world = Simulation::new(3).interpose(aplomb_virtual_time::install);
    assert_series(world.run(|cluster| a_flood(cluster.plain_client("demo"))).value);
}

#[tokio::test]
#[ignore = "needs the real control plane"]
async fn real_a_flood_becomes_a_series_and_a_few_events() {
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    assert_series(a_flood(plane.client().await.unwrap()).await);
}

#[test]
fn the_same_run_gives_its_events_the_same_names() {
    let names = |seed| {
        let world = Simulation::new(seed).interpose(aplomb_virtual_time::install);
        let run = world.run(|cluster| a_flood(cluster.plain_client("demo")));
        let names = run.value.0.iter().map(ResourceExt::name_any);
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(5), names(5));
}

async fn greet(page: Arc<Page>, cx: Context<Page>) -> aplomb::Result<Action> {
    cx.publish_event(EventNote::normal("Greeted", "Greet", page.spec.title.clone()));
    Ok(Action::Done)
}

/// An operator that is stopped while its last Event is being written; returns its Events.
async fn stopped_at_once(lab: Lab) -> Vec<Event> {
    let pages = page(&lab).await;
    let (client, faults) = lab.client("operator");
    let slow = Fault::Latency(Latency::Fixed(Duration::from_secs(2)));
    let creations = Match::any().verb(Verb::Create).resource("events");
    faults.add(Rule::new(slow).on(creations));
    let greeter = Controller::new("greet", greet);
    let engine = Engine::new("greet.example.com", client).controller(greeter);
    let greeted = wait_until(seconds(10), "the page is greeted", || async {
        pages.get("front").await.unwrap().status.is_some()
    });
    engine.run(async { _ = greeted.await }).await.unwrap();
    let events: Api<Event> = Api::namespaced(lab.user(), "default");
    events.list(&Default::default()).await.unwrap().items
}

#[test]
fn the_last_events_are_written_before_an_operator_ends() {
    let events = on_box(3, stopped_at_once);
    let notes: Vec<_> = events.iter().filter_map(|event| event.note.as_deref()).collect();
    assert_eq!(notes, ["a title"]);
    assert_eq!(events[0].regarding.as_ref().unwrap().name.as_deref(), Some("front"));
}

#[test]
fn event_publishing_never_blocks() {
    let world = Simulation::new(3).interpose(aplomb_virtual_time::install);
    let run = world.run(|cluster| async move {
        let unavailable = Rule::new(Fault::ServiceUnavailable);
        let events = Match::any().verb(Verb::Create).resource("events");
        cluster.faults("demo").add(unavailable.on(events));
        let client = cluster.plain_client("demo");
        let about = namespace(&client).await;
        let (recorder, publisher, telemetry) = recorder(&client);
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(publisher.run(shutdown.clone()));
        let before = Instant::now();
        for number in 0..1500 {
            recorder.publish(&about, EventNote::normal("Tried", "Test", format!("{number}")));
        }
        assert_eq!(before.elapsed(), Duration::ZERO);
        sleep(Duration::from_secs(600)).await;
        let asked = Instant::now();
        shutdown.cancel();
        running.await.unwrap();
        assert!(asked.elapsed() < Duration::from_secs(11), "{:?}", asked.elapsed());
        telemetry.text()
    });
    for reason in ["full", "unavailable", "spam"] {
        let dropped = format!(r#"aplomb_events_dropped_total{{reason="{reason}"}}"#);
        assert!(run.value.contains(&dropped), "{}", run.value);
    }
}
