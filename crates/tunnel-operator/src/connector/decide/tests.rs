//! Tests of the decision about a Connector.

use aplomb::conditions::ConditionStatus;
use aplomb_api::tunnel::{ConnectionDetails, ConnectorStatus};
use tokio::time::Instant;

use super::*;
use crate::connector::liveness::{LeaseSignal, LivenessSignals};

const LEASE: Duration = Duration::from_secs(30);

fn world(was: Option<bool>, silent: Duration) -> Observed {
    let now = Instant::now() + Duration::from_secs(3_600);
    let heard = now - silent;
    let class = ConnectorClassSpec {
        controller_name: CONTROLLER.to_owned(),
        ..ConnectorClassSpec::default()
    };
    Observed {
        name: "laptop".to_owned(),
        class_name: "aplomb".to_owned(),
        class: Some(class),
        gateways: vec!["aa".to_owned(), "bb".to_owned()],
        status: ConnectorStatus {
            connection_details: Some(ConnectionDetails::default()),
            ..ConnectorStatus::default()
        },
        signals: LivenessSignals {
            now,
            was_online: was,
            known: true,
            duration: LEASE,
            lease: Some(LeaseSignal {
                until: Some(heard + LEASE),
                released: false,
            }),
            last_proof: None,
            lost_since: None,
        },
        last_sign_of_life: Some(heard),
        heartbeat: Some("2020-01-01T00:00:00.5Z".parse().expect("a time")),
        confirmed: false,
        late_decision: false,
        contested_until: None,
        clock: "2026-01-01T00:10:00.7Z".parse().expect("a time"),
    }
}

fn decided(world: &Observed) -> Words {
    match decide(world) {
        Plan::Publish(words) => *words,
        other => panic!("no status to write: {other:?}"),
    }
}

fn condition<'a>(words: &'a Words, kind: &str) -> &'a Condition {
    let found = words.conditions.iter().find(|it| it.type_ == kind);
    found.expect("condition is set")
}

#[tokio::test(start_paused = true)]
async fn silence_is_confirmed_by_the_server_before_it_is_believed() {
    let mut world = world(Some(true), LEASE);
    assert!(matches!(decide(&world), Plan::Confirm));
    world.confirmed = true;
    let words = decided(&world);
    assert_eq!(condition(&words, "Online").reason, reasons::EXPIRED);
    assert_eq!(condition(&words, "Ready").status, ConditionStatus::False);
    assert_eq!(words.proof_demand, ProofDemand::AwaitProof);
    let text = |time: &Option<Time>| time.as_ref().map(|it| it.0.to_string());
    let (seen, since) = (&words.status.last_seen, &words.status.offline_since);
    assert_eq!(text(seen).as_deref(), Some("2026-01-01T00:09:30Z"));
    assert_eq!(text(since).as_deref(), Some("2026-01-01T00:10:00Z"));
    assert!(words.note.is_some());
}

#[tokio::test(start_paused = true)]
async fn silence_that_was_not_observed_gets_one_grace_period() {
    let mut world = world(Some(true), LEASE);
    (world.confirmed, world.late_decision) = (true, true);
    assert!(matches!(decide(&world), Plan::ExtendGrace));
}

#[tokio::test(start_paused = true)]
async fn a_pass_without_a_transition_keeps_the_status() {
    let mut world = world(Some(false), LEASE);
    let words = decided(&world);
    world.status.last_seen = words.status.last_seen.clone();
    world.clock = "2026-01-01T09:00:00Z".parse().expect("a time");
    world.heartbeat = Some("2026-01-01T08:59:00Z".parse().expect("a time"));
    assert_eq!(decided(&world).status, words.status);
    assert!(words.note.is_none());
}

#[tokio::test(start_paused = true)]
async fn one_that_comes_online_is_no_longer_offline_since() {
    let mut world = world(Some(false), Duration::ZERO);
    world.status.offline_since = Some(truncate_to_seconds(world.clock));
    let words = decided(&world);
    assert_eq!(words.status.offline_since, None);
    assert_eq!(condition(&words, "Ready").status, ConditionStatus::True);
    let lease = words.status.lease_ref.expect("a lease");
    assert_eq!(lease.renew_time, world.heartbeat.map(MicroTime));
}

#[tokio::test(start_paused = true)]
async fn a_missing_class_is_named_with_what_to_do() {
    let mut world = world(Some(true), Duration::ZERO);
    world.class = None;
    let words = decided(&world);
    let accepted = condition(&words, "Accepted");
    assert_eq!(accepted.reason, reasons::CONNECTOR_CLASS_NOT_FOUND);
    assert!(accepted.message.contains("create it"), "{accepted:?}");
    assert_eq!(condition(&words, "Ready").reason, accepted.reason);
    assert_eq!(condition(&words, "Online").status, ConditionStatus::True);
    assert_eq!(words.status.gateways, None);
}

#[tokio::test(start_paused = true)]
async fn a_class_that_names_gateways_limits_the_list() {
    let mut world = world(Some(true), Duration::ZERO);
    let class = world.class.as_mut().expect("a class");
    class.gateways = vec!["cc".to_owned(), "aa".to_owned(), "cc".to_owned()];
    let gateways = decided(&world).status.gateways;
    assert_eq!(gateways, Some(vec!["aa".to_owned(), "cc".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_late_heartbeat_asks_for_a_proof() {
    let words = decided(&world(Some(true), LEASE * 5 / 6));
    assert_eq!(words.proof_demand, ProofDemand::ProbeNow);
    assert_eq!(words.requeue_after, Some(LEASE / 6));
}

#[tokio::test(start_paused = true)]
async fn an_invalid_relay_url_is_reported_and_the_others_are_used() {
    let good = ["https://relay.example.com", "https://[2001:db8::7]:8443/"];
    let bad = ["https://relay.example.com:99999", "https://192.0.2.999"];
    for bad in bad {
        let mut world = world(Some(true), Duration::ZERO);
        let class = world.class.as_mut().expect("a class");
        class.relays = [good[0], bad, good[1]].map(str::to_owned).to_vec();
        let words = decided(&world);
        assert_eq!(words.status.relays, Some(good.map(str::to_owned).to_vec()));
        for kind in [conditions::ACCEPTED, conditions::READY] {
            let condition = condition(&words, kind);
            assert_eq!(
                (condition.status, &*condition.reason),
                (ConditionStatus::False, "InvalidRelay")
            );
            assert!(condition.message.contains(bad), "{}", condition.message);
        }
        assert_eq!(condition(&words, conditions::ONLINE).status, ConditionStatus::True);
        let class = world.class.as_mut().expect("a class");
        class.relays.retain(|it| it != bad);
        assert_eq!(
            condition(&decided(&world), conditions::READY).status,
            ConditionStatus::True
        );
    }
}
