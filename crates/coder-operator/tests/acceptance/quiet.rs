//! Guarantee: while nothing happens, nothing is written, and a server is called only as often as
//! documented.

use std::sync::atomic::Ordering;

use serde_json::json;
use tokio::time::sleep;

use crate::lab::{Around, minutes, tally};
use crate::operator::Replica;

/// Reads per hour for all objects of an organization together, because one list serves all: daemons
/// every minute, keys every five, the license every ten, user and version every hour.
const MAX_PER_HOUR: usize = 60 + 12 + 6 + 3 + 1;

fn check_idle(hours: u64) {
    let day = Around::with_seed(1).long_running().run(move |lab| async move {
        for number in 0..5 {
            lab.provisioner(&format!("team-{number}"), &json!({})).await;
        }
        let replica = Replica::start(&lab, "first");
        for number in 0..5 {
            lab.wait_ready(&format!("team-{number}"), minutes(10)).await;
        }
        sleep(minutes(30)).await;
        let (writes, since) = (lab.status_writes(), lab.coderd.last_request());
        let effects = replica.component.effects();
        sleep(minutes(60 * hours)).await;
        let requests = lab.coderd.requests(since);
        let effects = replica.component.effects() - effects - requests.len() as u64;
        // Its lease is renewed every two seconds.
        let others = effects.saturating_sub(60 * 60 * hours / 2);
        (writes.load(Ordering::Relaxed), others, requests)
    });
    let (writes, others, requests) = day;
    let hours = usize::try_from(hours).expect("few");
    println!(
        "{hours} quiet hours of 5 objects: {writes} status writes, {} requests ({} an hour)",
        requests.len(),
        requests.len() / hours
    );
    for (path, many) in tally(requests.iter().map(|it| format!("{} {}", it.method, it.path))) {
        println!("  {many:>4} x {path}");
    }
    assert_eq!(writes, 0);
    assert!(others <= 2, "{others} writes other than lease renewals");
    assert!(requests.iter().all(|it| it.method == "GET"), "only reads");
    let most = MAX_PER_HOUR * hours;
    assert!(requests.len() <= most, "{} requests", requests.len());
}

#[test]
fn two_quiet_hours_write_nothing() {
    check_idle(2);
}

#[test]
#[ignore = "43,000 renewals of a lease; make proof runs it"]
fn a_quiet_day_writes_nothing() {
    check_idle(24);
}
