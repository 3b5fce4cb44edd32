//! What the calls of the API answer and change.

use std::time::Duration;

use serde_json::json;

use super::{call, get, hetzner};

#[tokio::test(start_paused = true)]
async fn the_holder_changes_when_the_action_ends_and_not_before() {
    let hetzner = hetzner(|_| {});
    let path = "/v1/floating_ips/10/actions/assign";
    let (status, body) = call(&hetzner, "POST", path, json!({"server": 2})).await;
    assert_eq!(status, 201);
    assert_eq!(body["action"]["status"], "running");
    assert_eq!(body["action"]["command"], "assign_floating_ip");
    let id = body["action"]["id"].as_u64().expect("an id");
    assert_eq!(hetzner.holder(10), Some(1));
    let (status, body) = call(&hetzner, "POST", path, json!({"server": 2})).await;
    assert_eq!(
        (status, body["error"]["code"].as_str()),
        (423, Some("locked"))
    );
    tokio::time::advance(Duration::from_secs(1)).await;
    let (_, body) = get(&hetzner, &format!("/v1/actions/{id}")).await;
    assert_eq!(body["action"]["status"], "success");
    assert_eq!(body["action"]["progress"], 100);
    assert_eq!(hetzner.holder(10), Some(2));
}
