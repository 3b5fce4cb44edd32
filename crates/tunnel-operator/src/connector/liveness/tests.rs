//! Tests of liveness: each rule by example, and invariants as property tests.

use proptest::prelude::*;

use super::*;

const SECONDS: fn(u64) -> Duration = Duration::from_secs;
const LEASE: Duration = Duration::from_secs(30);

fn signals(began: Instant, at: Duration) -> LivenessSignals {
    LivenessSignals {
        now: began + at,
        was_online: Some(true),
        known: true,
        duration: LEASE,
        lease: Some(LeaseSignal {
            until: Some(began + LEASE),
            released: false,
        }),
        last_proof: None,
        lost_since: None,
    }
}

fn decision(signs: &LivenessSignals) -> (bool, &'static str) {
    let judgement = decide_liveness(signs);
    (judgement.online, judgement.reason)
}

#[tokio::test(start_paused = true)]
async fn a_release_counts_at_once() {
    let now = Instant::now();
    let mut it = signals(now, SECONDS(1));
    it.last_proof = Some(now + SECONDS(1));
    it.lease = it.lease.map(|lease| LeaseSignal {
        released: true,
        ..lease
    });
    assert_eq!(decision(&it), (false, reasons::RELEASED));
}

#[tokio::test(start_paused = true)]
async fn a_proof_stands_in_for_a_lease_that_expired() {
    let began = Instant::now();
    let mut it = signals(began, SECONDS(31));
    it.last_proof = Some(began + SECONDS(20));
    let judgement = decide_liveness(&it);
    assert_eq!((judgement.online, judgement.reason), (true, reasons::SESSION_ALIVE));
    assert_eq!(judgement.recheck_after, Some(SECONDS(19)));
    it.now = began + SECONDS(50);
    assert_eq!(decision(&it), (false, reasons::EXPIRED));
}

#[tokio::test(start_paused = true)]
async fn a_session_may_be_lost_for_a_moment_only() {
    let began = Instant::now();
    let mut it = signals(began, SECONDS(10));
    it.lost_since = Some(began + SECONDS(10));
    let judgement = decide_liveness(&it);
    assert!(judgement.online);
    assert_eq!(judgement.recheck_after, Some(SESSION_LOST_AFTER));
    it.now = began + SECONDS(13);
    assert_eq!(decision(&it), (false, reasons::SESSION_LOST));
    it.last_proof = Some(began + SECONDS(11));
    assert_eq!(decision(&it), (true, reasons::RENEWED));
}

#[tokio::test(start_paused = true)]
async fn a_session_lost_with_a_stale_lease_counts_at_once() {
    let began = Instant::now();
    let mut it = signals(began, SECONDS(30));
    it.last_proof = Some(began + SECONDS(29));
    it.lost_since = Some(began + SECONDS(30));
    assert_eq!(decision(&it), (false, reasons::SESSION_LOST));
}

#[tokio::test(start_paused = true)]
async fn a_lost_connector_stays_lost_until_it_has_a_session() {
    let began = Instant::now();
    let mut it = signals(began, SECONDS(1));
    it.was_online = Some(false);
    it.lost_since = Some(began + SECONDS(1));
    assert_eq!(decision(&it), (false, reasons::SESSION_LOST));
}

#[tokio::test(start_paused = true)]
async fn what_was_expired_before_the_start_needs_a_new_heartbeat() {
    let began = Instant::now();
    let mut it = signals(began, SECONDS(0));
    it.was_online = Some(false);
    it.lease = it.lease.map(|lease| LeaseSignal { until: None, ..lease });
    assert_eq!(decision(&it), (false, reasons::EXPIRED));
    (it.lease, it.known) = (None, false);
    assert_eq!(decision(&it), (false, reasons::NEVER_SEEN));
}

proptest! {
    /// Checked whenever it requests it, and at random times: a gap shorter than the lease does not show, and
    /// a longer one shows exactly when the lease ends.
    #[test]
    fn only_a_silence_of_a_whole_lease_shows(
        lease in 1_u64..1_200_000,
        gaps in prop::collection::vec((0.0_f64..1.0, prop::collection::vec(0.0_f64..1.0, 0..4)), 1..50),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let began = runtime.block_on(async { Instant::now() });
        let duration = Duration::from_millis(lease);
        let look = |heard: Instant, now: Instant| decide_liveness(&LivenessSignals {
            now,
            was_online: Some(true),
            known: true,
            duration,
            lease: Some(LeaseSignal { until: Some(heard + duration), released: false }),
            last_proof: None,
            lost_since: None,
        });
        let mut heard = began;
        for (gap, looks) in gaps {
            let next = heard + duration.mul_f64(gap);
            for at in looks {
                let now = heard + (next - heard).mul_f64(at);
                prop_assert!(look(heard, now).online);
            }
            heard = next;
        }
        // No further signals: only its own timer triggers a check.
        let (mut now, mut looks) = (heard, 0);
        while let Some(again) = look(heard, now).recheck_after {
            now += again;
            looks += 1;
            prop_assert!(looks < 5, "checks do not reach a decision");
        }
        prop_assert!(!look(heard, now).online);
        prop_assert_eq!(now, heard + duration);
    }
}
