//! Tests of liveness: each rule by example, and invariants as property tests.

use proptest::prelude::*;

use super::*;

const S: fn(u64) -> Duration = Duration::from_secs;
const L: Duration = Duration::from_secs(30);

fn signs(began: Instant, at: Duration) -> LivenessSignals {
    LivenessSignals {
        now: began + at,
        was: Some(true),
        known: true,
        duration: L,
        lease: Some(LeaseSignal {
            until: Some(began + L),
            released: false,
        }),
        proven: None,
        lost_since: None,
    }
}

fn verdict(signs: &LivenessSignals) -> (bool, &'static str) {
    let judgement = judge(signs);
    (judgement.online, judgement.reason)
}

#[tokio::test(start_paused = true)]
async fn a_release_counts_at_once_whatever_else_is_known() {
    let now = Instant::now();
    let mut it = signs(now, S(1));
    it.proven = Some(now + S(1));
    it.lease = it.lease.map(|lease| LeaseSignal {
        released: true,
        ..lease
    });
    assert_eq!(verdict(&it), (false, reasons::RELEASED));
}

#[tokio::test(start_paused = true)]
async fn a_proof_stands_in_for_a_lease_that_expired() {
    let began = Instant::now();
    let mut it = signs(began, S(31));
    it.proven = Some(began + S(20));
    let judgement = judge(&it);
    assert_eq!(
        (judgement.online, judgement.reason),
        (true, reasons::SESSION_ALIVE)
    );
    assert_eq!(judgement.again, Some(S(19)));
    it.now = began + S(50);
    assert_eq!(verdict(&it), (false, reasons::EXPIRED));
}

#[tokio::test(start_paused = true)]
async fn a_session_may_be_lost_for_a_moment_only() {
    let began = Instant::now();
    let mut it = signs(began, S(10));
    it.lost_since = Some(began + S(10));
    let judgement = judge(&it);
    assert!(judgement.online);
    assert_eq!(judgement.again, Some(LOST));
    it.now = began + S(13);
    assert_eq!(verdict(&it), (false, reasons::SESSION_LOST));
    it.proven = Some(began + S(11));
    assert_eq!(verdict(&it), (true, reasons::RENEWED));
}

#[tokio::test(start_paused = true)]
async fn a_session_lost_with_a_stale_lease_counts_at_once() {
    let began = Instant::now();
    let mut it = signs(began, S(30));
    it.proven = Some(began + S(29));
    it.lost_since = Some(began + S(30));
    assert_eq!(verdict(&it), (false, reasons::SESSION_LOST));
}

#[tokio::test(start_paused = true)]
async fn one_that_was_lost_stays_so_until_it_has_a_session() {
    let began = Instant::now();
    let mut it = signs(began, S(1));
    it.was = Some(false);
    it.lost_since = Some(began + S(1));
    assert_eq!(verdict(&it), (false, reasons::SESSION_LOST));
}

#[tokio::test(start_paused = true)]
async fn what_was_expired_before_the_start_needs_a_new_heartbeat() {
    let began = Instant::now();
    let mut it = signs(began, S(0));
    it.was = Some(false);
    it.lease = it.lease.map(|lease| LeaseSignal {
        until: None,
        ..lease
    });
    assert_eq!(verdict(&it), (false, reasons::EXPIRED));
    (it.lease, it.known) = (None, false);
    assert_eq!(verdict(&it), (false, reasons::NEVER_SEEN));
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
        let look = |heard: Instant, now: Instant| judge(&LivenessSignals {
            now,
            was: Some(true),
            known: true,
            duration,
            lease: Some(LeaseSignal { until: Some(heard + duration), released: false }),
            proven: None,
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
        while let Some(again) = look(heard, now).again {
            now += again;
            looks += 1;
            prop_assert!(looks < 5, "checks do not reach a decision");
        }
        prop_assert!(!look(heard, now).online);
        prop_assert_eq!(now, heard + duration);
    }
}
