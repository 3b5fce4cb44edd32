//! Guarantee: a restart keeps the backoff after a refusal: no call is sent before the time in the
//! status.

use serde_json::json;
use tokio::time::sleep;

use crate::claims::{unsettled, wait_until_settled};
use crate::lab::{TEAM, minutes, on_box, seconds, until};
use crate::operator::Replica;

#[test]
fn a_restarted_operator_sends_nothing_before_its_time() {
    for wait in [1, 20, 90, 300, 1200] {
        on_box(wait, move |lab| async move {
            lab.coderd.refuse_all(true);
            let first = Replica::start(&lab, "first");
            lab.provisioner(TEAM, &json!({})).await;
            until(seconds(30), "refused", || lab.status(TEAM).rate_limited.is_some()).await;
            sleep(seconds(wait)).await;
            let since = lab.coderd.last_request();
            let limited = lab.status(TEAM).rate_limited.expect("it is refused");
            first.component.crash();
            // The lease has to expire, or to be acquired again.
            sleep(minutes(2)).await;
            let sent = lab.coderd.requests(since);
            let early = sent.iter().filter(|it| it.time < limited.not_before.0);
            assert_eq!(early.count(), 0, "not before {:?}: {sent:#?}", limited.not_before);
            println!(
                "restarted {wait} s into an episode: {} calls in the next 2 min",
                sent.len()
            );
            assert!(
                sent.len() <= 8,
                "the backoff does not restart at two seconds: {}",
                sent.len()
            );
        });
    }
}

#[test]
fn ten_restarts_in_a_row_add_no_hail_of_calls() {
    on_box(7, |lab| async move {
        lab.coderd.refuse_all(true);
        let first = Replica::start(&lab, "first");
        lab.provisioner(TEAM, &json!({})).await;
        sleep(minutes(10)).await;
        let since = lab.coderd.last_request();
        for _ in 0..10 {
            first.component.crash();
            sleep(seconds(30)).await;
        }
        let sent = lab.coderd.requests(since).len();
        println!("10 restarts in 5 min, ten minutes into an episode: {sent} calls");
        assert!(sent <= 20, "{sent}");
    });
}

#[test]
fn a_recovered_operator_goes_on_where_it_was() {
    on_box(8, |lab| async move {
        lab.coderd.refuse_all(true);
        let first = Replica::start(&lab, "first");
        lab.provisioner(TEAM, &json!({})).await;
        sleep(minutes(3)).await;
        first.component.crash();
        lab.coderd.clear_faults();
        let took = lab.wait_ready(TEAM, minutes(10)).await;
        println!("restarted in an episode that then ended: Ready after {took:.0?}");
        assert_eq!(lab.status(TEAM).rate_limited, None);
    });
}

/// Two replicas count as one client: the standby makes no calls.
#[test]
fn a_standby_makes_no_calls_and_takes_over() {
    on_box(9, |lab| async move {
        let first = lab.start_settled(&json!({})).await;
        let second = Replica::start(&lab, "second");
        sleep(minutes(10)).await;
        assert_eq!(second.metric(&["aplomb_coder", "requests_total"]), 0.0);
        lab.annotate(TEAM, "coder.aplomb.dev/rotate", "one").await;
        sleep(seconds(2)).await;
        drop(first);
        let rotated = || match lab.status(TEAM).rotation.honoured.as_deref() {
            Some("one") => unsettled(&lab, TEAM),
            other => Some(format!("honoured is {other:?}")),
        };
        let took = wait_until_settled(minutes(15), rotated).await.unwrap();
        println!("a leader that crashes in a rotation: the standby has completed it after {took:.0?}");
        assert_eq!(lab.coderd.outages(), Vec::<String>::new());
    });
}
