//! Guarantee: nodes that are not candidates cost at most a reconcile when they are created or
//! deleted, and no read.

use serde_json::json;
use tokio::time::sleep;

use crate::lab::{on_box, seconds};
use crate::nodes;
use crate::quiet::reconciles;

/// How many of them are created and deleted.
const STRANGERS: usize = 1_000;

#[test]
fn a_thousand_nodes_of_others_come_and_go_without_a_read() {
    let cost = |strangers: usize| {
        on_box(1, move |lab| async move {
            let replica = lab.start_settled(2, &json!({})).await;
            let before = (lab.hetzner.requests().len(), reconciles(&replica));
            let busy = async {
                for number in 100..100 + strangers {
                    lab.nodes.create(&nodes::node(number, None)).await;
                }
                for number in 100..100 + strangers {
                    lab.nodes.delete(number).await;
                }
                std::future::pending::<()>().await;
            };
            tokio::select! { biased; () = sleep(seconds(600)) => {} () = busy => {} }
            let nodes = lab.cluster.server().list("", "nodes");
            assert_eq!(nodes.len(), 2, "all were created and deleted");
            let reads = lab.hetzner.requests().len() - before.0;
            (reads, reconciles(&replica) - before.1)
        })
    };
    let (with, without) = (cost(STRANGERS), cost(0));
    println!(
        "{STRANGERS} nodes of others created and deleted in 10 min: {} reads and {} reconciles; {} and {} without them",
        with.0, with.1, without.0, without.1
    );
    assert_eq!(with.0, without.0, "not one read more");
    let passes = (without.1 + 1.0)..=(without.1 + 2.0 * STRANGERS as f64);
    assert!(passes.contains(&with.1), "at most one reconcile each");
    assert!(without.0 > 15, "the floating IP is still read");
}
