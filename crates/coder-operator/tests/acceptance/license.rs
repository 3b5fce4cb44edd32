//! Guarantee: a server without a license, or without the feature, is reported clearly and called
//! again every ten minutes at most.

use aplomb_fake_services::coderd::Entry;
use serde_json::json;
use tokio::time::sleep;

use crate::lab::{Around, Lab, TEAM, minutes, seconds};
use crate::operator::Replica;

async fn two_hours(lab: &Lab, reason: &str) -> usize {
    let _replica = Replica::start(lab, "first");
    lab.provisioner(TEAM, &json!({})).await;
    sleep(seconds(30)).await;
    let said = lab.condition(TEAM, "ExternalProvisionersEntitled");
    assert_eq!(
        (said.status.as_str(), said.reason.as_str()),
        ("False", reason),
        "{said:?}"
    );
    assert_eq!(lab.condition(TEAM, "Ready").status, "False");
    let since = lab.coderd.last_request();
    sleep(minutes(120)).await;
    let requests = lab.coderd.requests(since);
    assert_rare(&requests);
    requests.len()
}

/// No call is made again sooner than ten minutes later.
pub fn assert_rare(requests: &[Entry]) {
    for path in requests.iter().map(|it| &it.path) {
        let mut times = requests.iter().filter(|it| it.path == *path).map(|it| it.time);
        let mut last = times.next().expect("it is one of them");
        for time in times {
            let apart = time.duration_since(last).as_secs_f64();
            assert!(apart >= 599.0, "{path}: {apart} s");
            last = time;
        }
    }
}

#[test]
fn a_server_without_a_license_is_called_every_ten_minutes_at_most() {
    Around::with_seed(1)
        .with_server(|it| it.licensed = false)
        .run(|lab| async move {
            let calls = two_hours(&lab, "NotEntitled").await;
            println!("without a license: {calls} calls in 2 h");
            assert!(calls <= 20, "{calls}");
            let licensed = serde_json::from_value(json!({ "licensed": true })).unwrap();
            lab.coderd.sim.change(licensed).unwrap();
            // Two hours later another replica, as after a restart of the first.
            let _replica = Replica::start(&lab, "second");
            let took = lab.wait_ready(TEAM, minutes(15)).await;
            println!("licensed: Ready after {took:.0?}");
        });
}

#[test]
fn a_server_without_the_feature_is_called_every_ten_minutes_at_most() {
    Around::with_seed(2)
        .with_server(|it| it.agpl = true)
        .run(|lab| async move {
            let calls = two_hours(&lab, "NotSupported").await;
            println!("without the feature: {calls} calls in 2 h");
            assert!(calls <= 20, "{calls}");
        });
}

/// The entitlements are wrong, or a license ends in between: the feature itself refuses.
#[test]
fn a_refusal_of_the_feature_alone_is_called_every_ten_minutes_at_most() {
    Around::with_seed(3).run(|lab| async move {
        lab.coderd.fault(&json!({
            "path": "/api/v2/organizations/*/provisionerkeys", "status": 403,
            "body": { "message": "External Provisioner Daemons is an Enterprise feature. Contact sales!" },
        }));
        let _replica = Replica::start(&lab, "first");
        lab.provisioner(TEAM, &json!({})).await;
        sleep(seconds(30)).await;
        let since = lab.coderd.last_request();
        sleep(minutes(120)).await;
        let requests = lab.coderd.requests(since);
        let gated = requests.iter().filter(|it| it.status == Some(403)).count();
        println!(
            "403 of the feature: {gated} refused calls in 2 h, {} in all",
            requests.len()
        );
        assert!(gated <= 13, "{gated}");
        assert_eq!(lab.condition(TEAM, "Ready").status, "False");
        lab.coderd.clear_faults();
        lab.wait_ready(TEAM, minutes(15)).await;
    });
}
