//! Promise: a replica's report about its table is true and prompt, and changes that come together cause one
//! report.

use aplomb::ObjectKey;
use aplomb_simulation::faults::{Fault, Match, Rule};
use tokio::time::sleep;

use crate::lab::{TENANT, millis, on_box, seconds, until};
use crate::replica::Replica;

const GATEWAY: &str = "gateway-1";

fn connector_key() -> ObjectKey {
    ObjectKey::new(Some(TENANT), "laptop")
}

#[test]
fn children_are_acknowledged_soon_and_in_one_write() {
    on_box(1, |lab| async move {
        let replica = Replica::start(&lab, GATEWAY);
        lab.create_connector("laptop", "s1").await;
        until(seconds(5), "the gateway registers", || {
            lab.replica_spec(GATEWAY).is_some()
        })
        .await;
        assert!(replica.is_ready());
        sleep(seconds(1)).await;
        let before = lab.write_count(GATEWAY);
        let tunnel = lab.create_tunnel("app").await;
        let acknowledged = || lab.is_acknowledged(GATEWAY, &tunnel);
        let took = until(millis(300), "acknowledged", acknowledged).await;
        println!("acknowledged {took:?} after the last child was written");
        assert!(replica.has_backend(&tunnel.hostname()) && replica.has_backend("app.example.com"));
        assert_eq!(lab.write_count(GATEWAY) - before, 1);
    });
}

#[test]
fn nothing_is_acknowledged_that_is_not_served() {
    on_box(2, |lab| async move {
        let replica = Replica::start(&lab, GATEWAY);
        lab.create_connector("laptop", "s1").await;
        for number in 0..5 {
            let tunnel = lab.create_tunnel(&format!("app-{number}")).await;
            until(seconds(2), "acknowledged", || {
                let acknowledged = lab.is_acknowledged(GATEWAY, &tunnel);
                assert!(!acknowledged || replica.has_backend(&tunnel.hostname()));
                acknowledged
            })
            .await;
        }
    });
}

#[test]
fn an_acknowledgment_is_kept_when_a_tunnel_is_deleted() {
    on_box(9, |lab| async move {
        let _replica = Replica::start(&lab, GATEWAY);
        lab.create_connector("laptop", "s1").await;
        let (goes, stays) = (lab.create_tunnel("goes").await, lab.create_tunnel("stays").await);
        let acknowledged = || lab.is_acknowledged(GATEWAY, &stays);
        until(seconds(5), "acknowledged", acknowledged).await;
        sleep(seconds(1)).await;
        lab.delete(&goes).await;
        lab.create_connector("laptop", "s2").await;
        for _ in 0..1000 {
            sleep(millis(1)).await;
            assert!(acknowledged(), "the tunnel stays acknowledged");
        }
    });
}

#[test]
fn a_new_session_of_an_agent_is_adopted_and_acknowledged() {
    on_box(3, |lab| async move {
        let replica = Replica::start(&lab, GATEWAY);
        lab.create_connector("laptop", "s1").await;
        let tunnel = lab.create_tunnel("app").await;
        until(seconds(5), "acknowledged", || lab.is_acknowledged(GATEWAY, &tunnel)).await;
        let version: u64 = lab.create_connector("laptop", "s2").await.parse().unwrap();
        let took = until(millis(300), "acknowledged", || {
            let said = lab.replica_spec(GATEWAY).expect("it is registered");
            said.applied.connectors.parse::<u64>().unwrap_or_default() >= version
        })
        .await;
        println!("the next agent session was acknowledged after {took:?}");
        assert_eq!(replica.session(&connector_key()).as_deref(), Some("s2"));
    });
}

#[test]
fn a_lost_session_and_its_return_are_reported_at_once() {
    on_box(4, |lab| async move {
        let replica = Replica::start(&lab, GATEWAY);
        lab.create_connector("laptop", "s1").await;
        let tunnel = lab.create_tunnel("app").await;
        until(seconds(5), "acknowledged", || lab.is_acknowledged(GATEWAY, &tunnel)).await;
        for lost in [true, false] {
            replica.set_lost(&connector_key(), lost);
            let said = || {
                lab.replica_spec(GATEWAY)
                    .is_some_and(|it| it.lost.len() == usize::from(lost))
            };
            let took = until(millis(300), "the replica reports it", said).await;
            println!("lost: {lost}, reported after {took:?}");
        }
    });
}

#[test]
fn an_invalid_route_is_reported_and_affects_no_other() {
    on_box(5, |lab| async move {
        let replica = Replica::start(&lab, GATEWAY);
        lab.create_connector("laptop", "s1").await;
        let (bad, good) = (lab.create_tunnel("bad").await, lab.create_tunnel("good").await);
        until(seconds(5), "acknowledged", || lab.is_acknowledged(GATEWAY, &good)).await;
        lab.break_route(&bad).await;
        let said = || lab.replica_spec(GATEWAY).is_some_and(|it| !it.quarantined.is_empty());
        until(millis(300), "the replica reports it", said).await;
        assert_eq!(lab.replica_spec(GATEWAY).unwrap().quarantined[0].name, "bad");
        assert!(!replica.has_backend(&bad.hostname()));
        assert!(replica.has_backend(&good.hostname()));
    });
}

#[test]
fn a_deleted_record_is_written_again() {
    on_box(6, |lab| async move {
        let _replica = Replica::start(&lab, GATEWAY);
        until(seconds(5), "the gateway registers", || {
            lab.replica_spec(GATEWAY).is_some()
        })
        .await;
        lab.delete_record(GATEWAY).await;
        until(seconds(1), "the gateway registers again", || {
            lab.replica_spec(GATEWAY).is_some()
        })
        .await;
    });
}

#[test]
fn a_replica_that_stops_deletes_its_record() {
    on_box(7, |lab| async move {
        let replica = Replica::start(&lab, GATEWAY);
        until(seconds(5), "the gateway registers", || {
            lab.replica_spec(GATEWAY).is_some()
        })
        .await;
        replica.leave().await;
        assert!(lab.replica_spec(GATEWAY).is_none());
        assert!(!replica.is_ready());
        sleep(seconds(30)).await;
        assert!(lab.replica_spec(GATEWAY).is_none(), "the record does not come back");
    });
}

#[test]
fn tables_are_built_while_publishing_fails() {
    on_box(8, |lab| async move {
        let replica = Replica::start(&lab, GATEWAY);
        lab.create_connector("laptop", "s1").await;
        until(seconds(5), "the gateway registers", || {
            lab.replica_spec(GATEWAY).is_some()
        })
        .await;
        let writes = Rule::new(Fault::ServiceUnavailable).on(Match::writes());
        lab.cluster.faults(GATEWAY).add(writes);
        let tunnel = lab.create_tunnel("app").await;
        let served = || replica.has_backend(&tunnel.hostname());
        let took = until(millis(300), "served", served).await;
        println!("served {took:?} after the last child, although every write fails");
        sleep(seconds(20)).await;
        assert!(!lab.is_acknowledged(GATEWAY, &tunnel));
        lab.cluster.faults(GATEWAY).clear();
        let acknowledged = || lab.is_acknowledged(GATEWAY, &tunnel);
        until(seconds(2), "acknowledged", acknowledged).await;
    });
}
