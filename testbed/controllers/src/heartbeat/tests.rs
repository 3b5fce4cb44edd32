//! Heartbeats of simulated nodes, in virtual time.

use aplomb_apimachinery::clock::Clock;
use jiff::Timestamp;
use tokio::time::advance;

use super::*;

/// What three beats leave behind, with or without the short way.
async fn three_beats(short: bool) -> (Vec<Arc<Value>>, u64) {
    let server = ApiServer::builder()
        .clock(Clock::new(Timestamp::UNIX_EPOCH, 7))
        .build();
    let door = Door::kubelet(&server, "user");
    let nodes = server.any_version("", "nodes").expect("nodes are served");
    let key = Key {
        resource: nodes.storage.clone(),
        namespace: String::new(),
        name: String::new(),
    };
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n", "labels": { "a": "b" } },
        "spec": { "providerID": "hcloud://1" },
    });
    let mut create = door.call(Verb::Create, &nodes, &key).body(&node);
    create.user_agent = "user".to_owned();
    door.send(create).await.expect("a node");
    let mut kubelet = Kubelet::new(&server, "n");
    let before = server.store().revision();
    for _ in 0..3 {
        advance(Duration::from_secs(10)).await;
        if !short {
            kubelet.node = Touch::new(kubelet.node.key.clone());
            kubelet.lease = Touch::new(kubelet.lease.key.clone());
        }
        kubelet.renew_lease().await.expect("a lease");
        kubelet.beat().await.expect("a beat");
    }
    let mut objects = server.list("", "nodes");
    objects.extend(server.list("coordination.k8s.io", "leases"));
    (objects, server.store().revision() - before)
}

#[tokio::test(start_paused = true)]
async fn the_short_way_stores_what_the_verbs_would_have() {
    let (short, long) = (three_beats(true).await, three_beats(false).await);
    assert_eq!(short, long);
    assert_eq!(short.1, 6, "each beat is two writes");
    assert!(short.0[0]["status"]["conditions"][0]["lastHeartbeatTime"] == "1970-01-01T00:00:30Z");
}

#[tokio::test(start_paused = true)]
async fn what_somebody_else_wrote_is_not_undone() {
    let server = ApiServer::builder().build();
    let door = Door::kubelet(&server, "user");
    let nodes = server.any_version("", "nodes").expect("nodes are served");
    let mut kubelet = Kubelet::new(&server, "n");
    let mut place = kubelet.node.key.clone();
    place.name = String::new();
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" } });
    let create = door.call(Verb::Create, &nodes, &place).body(&node);
    door.send(create).await.expect("a node");
    for cordoned in [false, true, true] {
        advance(Duration::from_secs(10)).await;
        let cordon = json!({ "spec": { "unschedulable": cordoned } });
        let key = kubelet.node.key.clone();
        door.merge(&nodes, &key, &cordon).await.expect("a cordon");
        kubelet.beat().await.expect("a beat");
        let stored = server.store().get(&key).expect("it is there");
        assert_eq!(stored["spec"]["unschedulable"] == true, cordoned);
    }
}
