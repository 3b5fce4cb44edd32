//! Behavior when few calls of the rate limit are left.

use tokio::time::sleep;

use super::*;

#[tokio::test(start_paused = true)]
async fn reads_that_can_wait_leave_what_a_move_needs() {
    let bench = Bench::new(1, |_| {});
    bench.read_routine(0, 30).await.expect("seen");
    bench.set_remaining(31);
    sleep(Duration::from_secs(30)).await;
    bench.set_remaining(31);
    bench
        .read_routine(0, 30)
        .await
        .expect("one call more than the reserve was left");
    assert_eq!(bench.account.remaining().map(|seen| seen.remaining), Some(30));
    let sent = bench.count();
    let begin = bench.clouds.uptime();
    for _ in 0..29 {
        sleep(Duration::from_secs(30)).await;
        bench.set_remaining(5);
        assert_eq!(bench.read_routine(0, 30).await, Err(ProviderTrouble::Throttled));
    }
    assert_eq!(bench.count(), sent, "nothing was sent");
    assert_eq!(
        bench.account.read_interval(Duration::from_secs(30)),
        Duration::from_secs(900)
    );
    let again = bench.account.next_read_at().expect("not yet");
    assert_eq!(again, begin + Duration::from_secs(900));
    assert!(bench.read_with(0, 0, true).await.is_ok(), "a move may use the reserve");
    sleep(Duration::from_secs(900)).await;
    assert!(
        bench.read_routine(0, 30).await.is_ok(),
        "a probe must find out that it has recovered"
    );
    assert_eq!(
        bench.account.read_interval(Duration::from_secs(30)),
        Duration::from_secs(60)
    );
}

#[tokio::test(start_paused = true)]
async fn what_others_spend_between_two_reads_is_taken_into_account() {
    let bench = Bench::new(1, |config| config.refill_per_second = Some(1.0));
    let mut left = 400;
    let mut last = 400;
    loop {
        bench.set_remaining(left);
        if bench.read_routine(0, 30).await == Err(ProviderTrouble::Throttled) {
            break;
        }
        last = bench.account.remaining().expect("told").remaining;
        left -= 50;
        sleep(Duration::from_secs(30)).await;
    }
    assert!(last > 30, "it was not measured but forecast: {last}");
    assert!(left <= 40, "and not too early: {left}");
    assert!(bench.hetzner.requests().iter().all(|entry| entry.remaining >= 30));
}

#[tokio::test(start_paused = true)]
async fn an_empty_bucket_is_called_once_a_tick() {
    let bench = Bench::new(1, |_| {});
    bench.read_routine(0, 30).await.expect("seen");
    let (begin, sent) = (Instant::now(), bench.count());
    let end = begin + Duration::from_secs(120);
    while Instant::now() < end {
        // Other clients take every token as soon as it is added.
        bench.set_remaining(0);
        let refused = bench.account.assign(10, 2, deadline(), &bench.fence).await;
        assert_eq!(refused, Err(ProviderTrouble::Throttled));
        sleep(bench.account.retry_delay()).await;
    }
    let tries = bench.requests(sent);
    assert!((75..=121).contains(&tries.len()), "{} in 120 s", tries.len());
    assert!(tries.iter().all(|entry| entry.status == Some(429)));
    for pair in tries.windows(2) {
        let gap = pair[1].time.duration_since(pair[0].time).as_secs_f64();
        assert!((1.0..1.6).contains(&gap), "{gap} s");
    }
    sleep(Duration::from_secs(5)).await;
    assert!(bench.account.assign(10, 2, deadline(), &bench.fence).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn several_moves_at_an_empty_bucket_share_its_ticks() {
    let bench = Bench::new(5, |_| {});
    bench.read_routine(0, 30).await.expect("seen");
    bench.set_remaining(0);
    let sent = bench.count();
    let end = Instant::now() + Duration::from_secs(60);
    let moves = (10..15).map(|ip| {
        let bench = &bench;
        async move {
            while Instant::now() < end {
                bench.set_remaining(0);
                let _ = bench.account.assign(ip, 2, deadline(), &bench.fence).await;
                sleep(bench.account.retry_delay()).await;
            }
        }
    });
    futures::future::join_all(moves).await;
    let tries = bench.requests(sent).len();
    assert!((40..=75).contains(&tries), "{tries} for five in 60 s");
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_is_smaller_than_the_reserve_still_allows_reads() {
    let bench = Bench::new(1, |config| config.limit = 20);
    for _ in 0..20 {
        let _ = bench.read_routine(0, 30).await;
        sleep(Duration::from_secs(900)).await;
    }
    let sent = bench.requests(0);
    assert!((15..=20).contains(&sent.len()), "{} looks", sent.len());
    assert!(sent.iter().all(|entry| entry.status == Some(200)));
    assert!(bench.account.assign(10, 2, deadline(), &bench.fence).await.is_ok());
}
