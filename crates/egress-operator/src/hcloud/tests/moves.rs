//! Results of an Assign, and what the cache holds afterwards.

use aplomb_api::egress::labels;
use aplomb_fake_services::hcloud::SameServer;
use tokio::time::sleep;

use super::*;
use crate::egress::ActionState;

impl Bench {
    async fn assign(&self) -> Result<crate::egress::ObservedAction, ProviderTrouble> {
        self.account.assign(10, 2, deadline(), &self.fence).await
    }

    fn add_fault(&self, fault: serde_json::Value) {
        let fault = serde_json::from_value(fault).expect("a fault");
        self.hetzner.fault(fault);
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_move_what_was_seen_before_counts_no_more() {
    let bench = Bench::new(2, |_| {});
    bench.read_routine(0, 30).await.expect("seen");
    bench.read_routine(1, 30).await.expect("seen");
    let action = bench.assign().await.expect("accepted");
    assert_eq!(
        (action.state, action.accepted_at),
        (ActionState::Running, bench.clouds.uptime())
    );
    assert_eq!(
        bench.read_routine(0, 30).await.expect("seen").server,
        Some(1),
        "on its way"
    );
    sleep(Duration::from_secs(2)).await;
    let state = bench.account.poll_action(action.id, deadline(), &bench.fence).await;
    assert_eq!(state, Ok(ActionState::Success));
    assert_eq!(bench.read_routine(0, 30).await.expect("seen").server, Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_is_unanswered_and_the_next_refresh_reads() {
    let bench = Bench::new(1, |_| {});
    bench.read_routine(0, 30).await.expect("seen");
    bench.add_fault(json!({"method": "POST", "reset": "after", "times": 1}));
    let lost = bench.assign().await.expect_err("lost");
    assert!(matches!(lost, ProviderTrouble::Unreachable(_)), "{lost:?}");
    sleep(Duration::from_secs(2)).await;
    assert_eq!(bench.read_routine(0, 30).await.expect("seen").server, Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_is_given_up_in_time_to_try_again() {
    let bench = Bench::new(1, |_| {});
    bench.add_fault(json!({"method": "POST", "hang": "before", "times": 1}));
    let begin = Instant::now();
    let hung = bench.assign().await.expect_err("hung");
    assert!(matches!(hung, ProviderTrouble::Unreachable(_)), "{hung:?}");
    assert!(begin.elapsed() <= Duration::from_secs(5));
    assert!(bench.assign().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn one_that_is_there_already_is_a_success() {
    let bench = Bench::new(1, |config| config.same_server_assign = SameServer::Refused);
    let there = bench.account.assign(10, 1, deadline(), &bench.fence).await;
    let there = there.expect("there already");
    assert_eq!((there.id, there.state), (0, ActionState::Success));
}

#[tokio::test(start_paused = true)]
async fn each_refusal_is_the_trouble_it_stands_for() {
    for (fault, trouble) in [
        (json!({"code": "rate_limit_exceeded"}), ProviderTrouble::Throttled),
        (json!({"code": "locked"}), ProviderTrouble::Locked),
        (json!({"code": "conflict"}), ProviderTrouble::Locked),
        (json!({"code": "token_readonly"}), ProviderTrouble::Unauthorized),
        (json!({"code": "not_found"}), ProviderTrouble::NotFound),
        (
            json!({"code": "protected"}),
            ProviderTrouble::Refused("protected".to_owned()),
        ),
    ] {
        let bench = Bench::new(1, |_| {});
        bench.add_fault(fault);
        assert_eq!(bench.assign().await.expect_err("refused"), trouble);
    }
    let bench = Bench::new(1, |_| {});
    let action = bench.account.poll_action(999, deadline(), &bench.fence).await;
    assert_eq!(action, Err(ProviderTrouble::NotFound));
    let nowhere = bench.account.assign(10, 99, deadline(), &bench.fence).await;
    let server = ProviderTrouble::Refused("server_not_found".to_owned());
    assert_eq!(nowhere, Err(server));
    bench.read_routine(0, 30).await.expect("seen");
    let gone = json!({"floating_ips": []});
    bench.hetzner.change(change(gone)).expect("it fits");
    assert_eq!(bench.assign().await, Err(ProviderTrouble::NotFound));
    assert_eq!(bench.account.last_seen(&by_name("ip-0")), None);
}

#[tokio::test(start_paused = true)]
async fn without_the_lease_nothing_is_sent() {
    let bench = Bench::new(1, |_| {});
    bench.fence.revoke();
    assert!(matches!(bench.assign().await, Err(ProviderTrouble::Unreachable(_))));
    assert!(bench.read_routine(0, 30).await.is_err());
    assert_eq!(bench.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_term_is_written_beside_the_labels_that_are_there() {
    let bench = Bench::new(0, |_| {});
    let state = json!({"floating_ips":
        [{"id": 10, "name": "ip-0", "ip": "198.51.100.0", "labels": {"team": "web"}}]});
    bench.hetzner.change(change(state)).expect("it fits");
    let seen = bench.read_routine(0, 30).await.expect("seen");
    assert_eq!(seen.term, 0);
    let claimed = bench.account.write_term(&seen, 7, deadline(), &bench.fence).await;
    assert_eq!(claimed, Ok(()));
    let has = &bench.hetzner.state().floating_ips[0].labels;
    assert_eq!((has[labels::TERM].as_str(), has["team"].as_str()), ("7", "web"));
    let before = bench.count();
    assert_eq!(bench.read_routine(0, 30).await.expect("seen").term, 7);
    assert_eq!(bench.count(), before, "the response to the write counts as a read");
    let unread = Bench::new(1, |_| {});
    let claimed = unread.account.write_term(&seen, 8, deadline(), &unread.fence).await;
    assert_eq!(claimed, Ok(()), "a floating IP that was never read is read first");
}

#[tokio::test(start_paused = true)]
async fn no_part_of_the_token_is_in_any_trouble() {
    let bench = Bench::new(1, |_| {});
    let echo = json!({"error": {"code": "unavailable", "message": format!("for {SECRET}")}});
    for fault in [
        json!({"code": "rate_limit_exceeded"}),
        json!({"status": 503, "body": echo}),
        json!({"status": 500, "body": SECRET}),
        json!({"status": 200, "body": {"floating_ips": SECRET}}),
        json!({"reset": "before"}),
    ] {
        bench.hetzner.clear_faults(None);
        bench.add_fault(fault);
        let seen = bench.read_with(0, 0, true).await.expect_err("it fails");
        let moved = bench.assign().await.expect_err("it fails");
        let texts = [format!("{seen:?} {moved:?}"), format!("{:?}", bench.clouds)];
        for at in 0..=SECRET.len() - 8 {
            let part = &SECRET[at..at + 8];
            assert!(texts.iter().all(|text| !text.contains(part)), "{texts:?}");
        }
        sleep(Duration::from_secs(2)).await;
    }
}
