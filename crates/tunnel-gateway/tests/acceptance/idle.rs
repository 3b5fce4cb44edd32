//! Promise: an idle gateway writes only its heartbeat.

use std::time::Duration;

use tokio::time::sleep;

use crate::lab::{on_box, seconds, until};
use crate::replica::Replica;

const IDLE: Duration = Duration::from_secs(600);

#[test]
fn ten_idle_minutes_cost_a_heartbeat_every_third_of_the_lease_and_nothing_else() {
    on_box(11, |lab| async move {
        let _replica = Replica::start(&lab, "gateway-1");
        lab.create_connector("laptop", "s1").await;
        let tunnel = lab.create_tunnel("app").await;
        until(seconds(5), "acknowledged", || lab.is_acknowledged("gateway-1", &tunnel)).await;
        sleep(seconds(10)).await;
        let (words, writes) = (lab.write_count("gateway-1"), lab.cluster.writes().len());
        sleep(IDLE).await;
        let beats = lab.write_count("gateway-1") - words;
        let writes = lab.cluster.writes().len() - writes;
        println!("{beats} heartbeats of {writes} writes in {IDLE:?}");
        assert_eq!(usize::try_from(beats).unwrap(), writes, "only heartbeats");
        assert!((115..=121).contains(&beats), "{beats}");
    });
}
