//! Promise: a replica's report about its table is true and prompt, and changes that come together cause one
//! report.

use aplomb::ObjectKey;
use aplomb_apiserver::faults::{Fault, Match, Rule};
use tokio::time::sleep;

use crate::lab::{TENANT, millis, on_box, seconds, until};
use crate::replica::Replica;

const GATEWAY: &str = "gateway-1";

fn laptop() -> ObjectKey {
    ObjectKey::new(Some(TENANT), "laptop")
}

#[test]
fn children_are_acknowledged_within_a_moment_and_in_one_word() {
    on_box(1, |lab| async move {
        let replica = Replica::start(&lab, GATEWAY);
        lab.connector("laptop", "s1").await;
        until(seconds(5), "the gateway registers", || lab.said(GATEWAY).is_some()).await;
        assert!(replica.is_ready());
        sleep(seconds(1)).await;
        let before = lab.words(GATEWAY);
        let tunnel = lab.tunnel("app").await;
        let acknowledged = || lab.acknowledged(GATEWAY, &tunnel);
        let took = until(millis(300), "acknowledged", acknowledged).await;
        println!("acknowledged {took:?} after the last child was written");
        assert!(replica.serves(&tunnel.hostname()) && replica.serves("app.example.com"));
        assert_eq!(lab.words(GATEWAY) - before, 1);
    });
}

#[test]
fn nothing_is_acknowledged_that_is_not_served() {
    on_box(2, |lab| async move {
        let replica = Replica::start(&lab, GATEWAY);
        lab.connector("laptop", "s1").await;
        for number in 0..5 {
            let tunnel = lab.tunnel(&format!("app-{number}")).await;
            until(seconds(2), "acknowledged", || {
                let acknowledged = lab.acknowledged(GATEWAY, &tunnel);
                assert!(!acknowledged || replica.serves(&tunnel.hostname()));
                acknowledged
            })
            .await;
        }
    });
}

#[test]
fn what_was_said_is_not_taken_back_when_a_tunnel_goes() {
    on_box(9, |lab| async move {
        let _replica = Replica::start(&lab, GATEWAY);
        lab.connector("laptop", "s1").await;
        let (goes, stays) = (lab.tunnel("goes").await, lab.tunnel("stays").await);
        let acknowledged = || lab.acknowledged(GATEWAY, &stays);
        until(seconds(5), "acknowledged", acknowledged).await;
        sleep(seconds(1)).await;
        lab.delete(&goes).await;
        lab.connector("laptop", "s2").await;
        for _ in 0..1000 {
            sleep(millis(1)).await;
            assert!(acknowledged(), "the tunnel stays acknowledged");
        }
    });
}

#[test]
fn another_life_of_an_agent_is_taken_up_and_acknowledged() {
    on_box(3, |lab| async move {
        let replica = Replica::start(&lab, GATEWAY);
        lab.connector("laptop", "s1").await;
        let tunnel = lab.tunnel("app").await;
        until(seconds(5), "acknowledged", || {
            lab.acknowledged(GATEWAY, &tunnel)
        })
        .await;
        let version: u64 = lab.connector("laptop", "s2").await.parse().unwrap();
        let took = until(millis(300), "acknowledged", || {
            let said = lab.said(GATEWAY).expect("it is registered");
            said.applied.connectors.parse::<u64>().unwrap_or_default() >= version
        })
        .await;
        println!("the next agent session was acknowledged after {took:?}");
        assert_eq!(replica.session(&laptop()).as_deref(), Some("s2"));
    });
}

#[test]
fn a_lost_session_is_said_at_once_and_so_is_its_return() {
    on_box(4, |lab| async move {
        let replica = Replica::start(&lab, GATEWAY);
        lab.connector("laptop", "s1").await;
        let tunnel = lab.tunnel("app").await;
        until(seconds(5), "acknowledged", || {
            lab.acknowledged(GATEWAY, &tunnel)
        })
        .await;
        for lost in [true, false] {
            replica.lose(&laptop(), lost);
            let said = || {
                lab.said(GATEWAY)
                    .is_some_and(|it| it.lost.len() == usize::from(lost))
            };
            let took = until(millis(300), "the replica reports it", said).await;
            println!("lost: {lost}, reported after {took:?}");
        }
    });
}

#[test]
fn a_route_that_makes_no_sense_is_reported_and_touches_no_other() {
    on_box(5, |lab| async move {
        let replica = Replica::start(&lab, GATEWAY);
        lab.connector("laptop", "s1").await;
        let (bad, good) = (lab.tunnel("bad").await, lab.tunnel("good").await);
        until(seconds(5), "acknowledged", || {
            lab.acknowledged(GATEWAY, &good)
        })
        .await;
        lab.spoil(&bad).await;
        let said = || {
            lab.said(GATEWAY)
                .is_some_and(|it| !it.quarantined.is_empty())
        };
        until(millis(300), "the replica reports it", said).await;
        assert_eq!(lab.said(GATEWAY).unwrap().quarantined[0].name, "bad");
        assert!(!replica.serves(&bad.hostname()));
        assert!(replica.serves(&good.hostname()));
    });
}

#[test]
fn a_record_that_somebody_deletes_is_written_again() {
    on_box(6, |lab| async move {
        let _replica = Replica::start(&lab, GATEWAY);
        until(seconds(5), "the gateway registers", || lab.said(GATEWAY).is_some()).await;
        lab.forget(GATEWAY).await;
        until(seconds(1), "the gateway registers again", || {
            lab.said(GATEWAY).is_some()
        })
        .await;
    });
}

#[test]
fn a_replica_that_leaves_takes_its_name_off_the_list_for_good() {
    on_box(7, |lab| async move {
        let replica = Replica::start(&lab, GATEWAY);
        until(seconds(5), "the gateway registers", || lab.said(GATEWAY).is_some()).await;
        replica.leave().await;
        assert!(lab.said(GATEWAY).is_none());
        assert!(!replica.is_ready());
        sleep(seconds(30)).await;
        assert!(lab.said(GATEWAY).is_none(), "the record does not come back");
    });
}

#[test]
fn tables_are_built_although_nothing_can_be_said() {
    on_box(8, |lab| async move {
        let replica = Replica::start(&lab, GATEWAY);
        lab.connector("laptop", "s1").await;
        until(seconds(5), "the gateway registers", || lab.said(GATEWAY).is_some()).await;
        let writes = Rule::new(Fault::ServiceUnavailable).on(Match::writes());
        lab.cluster.faults(GATEWAY).add(writes);
        let tunnel = lab.tunnel("app").await;
        let served = || replica.serves(&tunnel.hostname());
        let took = until(millis(300), "served", served).await;
        println!("served {took:?} after the last child, although every write fails");
        sleep(seconds(20)).await;
        assert!(!lab.acknowledged(GATEWAY, &tunnel));
        lab.cluster.faults(GATEWAY).clear();
        let acknowledged = || lab.acknowledged(GATEWAY, &tunnel);
        until(seconds(2), "acknowledged", acknowledged).await;
    });
}
