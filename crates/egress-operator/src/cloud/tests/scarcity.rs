//! Behavior when few calls of the rate limit are left.

use tokio::time::sleep;

use super::*;

#[tokio::test(start_paused = true)]
async fn looks_that_can_wait_leave_what_a_move_needs() {
    let bench = Bench::new(1, |_| {});
    bench.look(0, 30).await.expect("seen");
    bench.left(31);
    sleep(Duration::from_secs(30)).await;
    bench.left(31);
    bench.look(0, 30).await.expect("one call more than the reserve was left");
    assert_eq!(bench.account.budget().map(|seen| seen.remaining), Some(30));
    let sent = bench.count();
    let begin = bench.clouds.uptime();
    for _ in 0..29 {
        sleep(Duration::from_secs(30)).await;
        bench.left(5);
        assert_eq!(bench.look(0, 30).await, Err(ProviderTrouble::Throttled));
    }
    assert_eq!(bench.count(), sent, "nothing was sent");
    assert_eq!(
        bench.account.resync(Duration::from_secs(30)),
        Duration::from_secs(900)
    );
    let again = bench.account.not_before().expect("not yet");
    assert_eq!(again, begin + Duration::from_secs(900));
    assert!(bench.see(0, 0, true).await.is_ok(), "a move may use the reserve");
    sleep(Duration::from_secs(900)).await;
    assert!(
        bench.look(0, 30).await.is_ok(),
        "a probe must find out that it has recovered"
    );
    assert_eq!(
        bench.account.resync(Duration::from_secs(30)),
        Duration::from_secs(60)
    );
}

#[tokio::test(start_paused = true)]
async fn what_others_spend_between_two_looks_is_taken_into_account() {
    let bench = Bench::new(1, |config| config.refill_per_second = Some(1.0));
    let mut left = 400;
    let mut last = 400;
    loop {
        bench.left(left);
        if bench.look(0, 30).await == Err(ProviderTrouble::Throttled) {
            break;
        }
        last = bench.account.budget().expect("told").remaining;
        left -= 50;
        sleep(Duration::from_secs(30)).await;
    }
    assert!(last > 30, "it was not measured but forecast: {last}");
    assert!(left <= 40, "and not too early: {left}");
    assert!(
        bench
            .hetzner
            .requests()
            .iter()
            .all(|entry| entry.remaining >= 30)
    );
}

#[tokio::test(start_paused = true)]
async fn an_empty_bucket_is_asked_once_a_tick_and_never_more_rarely() {
    let bench = Bench::new(1, |_| {});
    bench.look(0, 30).await.expect("seen");
    let (begin, sent) = (Instant::now(), bench.count());
    let end = begin + Duration::from_secs(120);
    while Instant::now() < end {
        // Other clients take every token as soon as it is added.
        bench.left(0);
        let refused = bench.account.assign(10, 2, soon(), &bench.fence).await;
        assert_eq!(refused, Err(ProviderTrouble::Throttled));
        sleep(bench.account.pace()).await;
    }
    let tries = bench.asked(sent);
    assert!(
        (75..=121).contains(&tries.len()),
        "{} in 120 s",
        tries.len()
    );
    assert!(tries.iter().all(|entry| entry.status == Some(429)));
    for pair in tries.windows(2) {
        let gap = pair[1].time.duration_since(pair[0].time).as_secs_f64();
        assert!((1.0..1.6).contains(&gap), "{gap} s");
    }
    sleep(Duration::from_secs(5)).await;
    assert!(
        bench
            .account
            .assign(10, 2, soon(), &bench.fence)
            .await
            .is_ok()
    );
}

#[tokio::test(start_paused = true)]
async fn several_moves_at_an_empty_bucket_share_its_ticks() {
    let bench = Bench::new(5, |_| {});
    bench.look(0, 30).await.expect("seen");
    bench.left(0);
    let sent = bench.count();
    let end = Instant::now() + Duration::from_secs(60);
    let moves = (10..15).map(|ip| {
        let bench = &bench;
        async move {
            while Instant::now() < end {
                bench.left(0);
                let _ = bench.account.assign(ip, 2, soon(), &bench.fence).await;
                sleep(bench.account.pace()).await;
            }
        }
    });
    futures::future::join_all(moves).await;
    let tries = bench.asked(sent).len();
    assert!((40..=75).contains(&tries), "{tries} for five in 60 s");
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_is_smaller_than_the_reserve_is_looked_at_all_the_same() {
    let bench = Bench::new(1, |config| config.limit = 20);
    for _ in 0..20 {
        let _ = bench.look(0, 30).await;
        sleep(Duration::from_secs(900)).await;
    }
    let sent = bench.asked(0);
    assert!((15..=20).contains(&sent.len()), "{} looks", sent.len());
    assert!(sent.iter().all(|entry| entry.status == Some(200)));
    assert!(
        bench
            .account
            .assign(10, 2, soon(), &bench.fence)
            .await
            .is_ok()
    );
}
