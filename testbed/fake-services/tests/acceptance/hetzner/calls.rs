//! What the calls of the API answer and change.

use std::time::Duration;

use aplomb_fake_services::hcloud::{FakeHcloud, SameServer};
use serde_json::{Value, json};
use tokio::time::advance;

use super::{ASSIGN, call, get, hetzner, put, refusal, send};

#[tokio::test(start_paused = true)]
async fn the_holder_changes_when_the_action_ends_and_not_before() {
    let hetzner = hetzner(|_| {});
    let (status, body) = call(&hetzner, "POST", ASSIGN, json!({"server": 2})).await;
    assert_eq!(status, 201);
    assert_eq!(body["action"]["status"], "running");
    assert_eq!(body["action"]["command"], "assign_floating_ip");
    assert_eq!(body["action"]["finished"], Value::Null);
    let id = body["action"]["id"].as_u64().expect("an id");
    advance(Duration::from_millis(499)).await;
    assert_eq!(hetzner.holder(10), Some(1));
    advance(Duration::from_millis(501)).await;
    for path in ["/v1/actions", "/v1/floating_ips/actions", "/v1/floating_ips/10/actions"] {
        let (_, body) = get(&hetzner, &format!("{path}/{id}")).await;
        assert_eq!(body["action"]["status"], "success", "{path}");
        assert_eq!(body["action"]["progress"], 100);
    }
    assert_eq!(hetzner.holder(10), Some(2));
}

#[tokio::test(start_paused = true)]
async fn server_and_address_are_locked_while_an_action_runs() {
    let hetzner = hetzner(|_| {});
    put(
        &hetzner,
        json!({"floating_ips": [
            {"id": 10, "name": "egress", "ip": "192.0.2.10", "server": 1},
            {"id": 11, "name": "other", "ip": "192.0.2.11"},
        ]}),
    );
    let (status, _) = call(&hetzner, "POST", ASSIGN, json!({"server": 2})).await;
    assert_eq!(status, 201);
    let locked = (423, "locked".to_owned());
    let other = "/v1/floating_ips/11/actions/assign";
    assert_eq!(refusal(&hetzner, "POST", ASSIGN, json!({"server": 1})).await, locked);
    assert_eq!(refusal(&hetzner, "POST", other, json!({"server": 2})).await, locked);
    let (_, body) = get(&hetzner, "/v1/servers/2").await;
    assert_eq!(body["server"]["locked"], true);
    let (status, _) = call(&hetzner, "POST", other, json!({"server": 1})).await;
    assert_eq!(status, 201);
    advance(Duration::from_secs(1)).await;
    assert_eq!((hetzner.holder(10), hetzner.holder(11)), (Some(2), Some(1)));
    let (_, body) = get(&hetzner, "/v1/servers/2").await;
    assert_eq!(body["server"]["locked"], false);
    assert_eq!(body["server"]["public_net"]["floating_ips"], json!([10]));
}

#[tokio::test(start_paused = true)]
async fn a_volume_attach_locks_the_server_too() {
    let hetzner = hetzner(|_| {});
    let path = "/v1/volumes/5/actions/attach";
    let (status, body) = call(&hetzner, "POST", path, json!({"server": 2})).await;
    assert_eq!(
        (status, body["action"]["command"].as_str()),
        (201, Some("attach_volume"))
    );
    let (status, code) = refusal(&hetzner, "POST", ASSIGN, json!({"server": 2})).await;
    assert_eq!((status, code.as_str()), (423, "locked"));
}

#[tokio::test(start_paused = true)]
async fn unassigning_frees_the_address_once() {
    let hetzner = hetzner(|_| {});
    let path = "/v1/floating_ips/10/actions/unassign";
    let (status, body) = call(&hetzner, "POST", path, json!({})).await;
    assert_eq!(
        (status, body["action"]["command"].as_str()),
        (201, Some("unassign_floating_ip"))
    );
    advance(Duration::from_secs(1)).await;
    assert_eq!(hetzner.holder(10), None);
    let (status, _) = refusal(&hetzner, "POST", path, json!({})).await;
    assert_eq!(status, 422);
}

#[tokio::test(start_paused = true)]
async fn an_assign_to_the_holder_is_a_switch() {
    for (switch, expected) in [(SameServer::Accepted, 201), (SameServer::Refused, 422)] {
        let hetzner = hetzner(|config| config.same_server_assign = switch);
        let (status, body) = call(&hetzner, "POST", ASSIGN, json!({"server": 1})).await;
        assert_eq!(status, expected, "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_server_holds_nothing() {
    let hetzner = hetzner(|_| {});
    let (status, body) = call(&hetzner, "DELETE", "/v1/servers/1", Value::Null).await;
    assert_eq!(
        (status, body["action"]["command"].as_str()),
        (200, Some("delete_server"))
    );
    assert_eq!(hetzner.holder(10), Some(1));
    advance(Duration::from_secs(1)).await;
    assert_eq!(hetzner.holder(10), None);
    assert_eq!(get(&hetzner, "/v1/servers/1").await.0, 404);
    put(
        &hetzner,
        json!({"floating_ips": [{"id": 10, "name": "egress", "ip": "192.0.2.10", "server": 2}]}),
    );
    put(&hetzner, json!({"servers": []}));
    assert_eq!(hetzner.holder(10), None);
}

#[tokio::test(start_paused = true)]
async fn a_floating_ip_has_every_member_the_api_promises() {
    let hetzner = hetzner(|_| {});
    let (_, body) = get(&hetzner, "/v1/floating_ips/10").await;
    let members: Vec<_> = body["floating_ip"].as_object().expect("an object").keys().collect();
    let promised = [
        "blocked",
        "created",
        "description",
        "dns_ptr",
        "home_location",
        "id",
        "ip",
        "labels",
        "name",
        "protection",
        "server",
        "type",
    ];
    let mut members: Vec<_> = members.into_iter().map(String::as_str).collect();
    members.sort_unstable();
    assert_eq!(members, promised);
    assert_eq!(body["floating_ip"]["type"], "ipv4");
    assert_eq!(body["floating_ip"]["description"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_put_replaces_labels_as_a_whole_and_leaves_the_rest() {
    let hetzner = hetzner(|_| {});
    let path = "/v1/floating_ips/10";
    call(
        &hetzner,
        "PUT",
        path,
        json!({"labels": {"a": "1", "b": "2"}, "description": "x"}),
    )
    .await;
    let (status, body) = call(&hetzner, "PUT", path, json!({"labels": {"c": "3"}})).await;
    assert_eq!(status, 200);
    assert_eq!(body["floating_ip"]["labels"], json!({"c": "3"}));
    assert_eq!(body["floating_ip"]["description"], "x");
    assert_eq!(body["floating_ip"]["name"], "egress");
    let (_, body) = call(&hetzner, "PUT", path, json!({"description": null})).await;
    assert_eq!(body["floating_ip"]["description"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn deleting_needs_an_address_that_is_free_and_not_protected() {
    let hetzner = hetzner(|_| {});
    let path = "/v1/floating_ips/10";
    let refused = |code: &str, status| (status, code.to_owned());
    let answer = refusal(&hetzner, "DELETE", path, Value::Null).await;
    assert_eq!(answer, refused("must_be_unassigned", 422));
    put(
        &hetzner,
        json!({"floating_ips": [
            {"id": 10, "name": "egress", "ip": "192.0.2.10", "protection": {"delete": true}},
            {"id": 11, "name": "free", "ip": "192.0.2.11"},
        ]}),
    );
    let answer = refusal(&hetzner, "DELETE", path, Value::Null).await;
    assert_eq!(answer, refused("protected", 423));
    let answer = send(&hetzner, "DELETE", "/v1/floating_ips/11", Value::Null)
        .await
        .expect("one");
    assert_eq!((answer.status().as_u16(), answer.body().len()), (204, 0));
    assert_eq!(get(&hetzner, "/v1/floating_ips/11").await.0, 404);
}

/// Sixty addresses, every second one `parity=even`.
fn sixty() -> FakeHcloud {
    let hetzner = hetzner(|_| {});
    let parity = |n| if n % 2 == 0 { "even" } else { "odd" };
    let many: Vec<Value> = (1..=60)
        .map(|n| {
            json!({"id": n, "name": format!("ip-{n}"), "ip": "192.0.2.1",
                        "labels": {"parity": parity(n)}})
        })
        .collect();
    put(&hetzner, json!({"floating_ips": many}));
    hetzner
}

/// The ids of a list and its pagination.
async fn listed(hetzner: &FakeHcloud, query: &str) -> (Vec<u64>, Value) {
    let (_, body) = get(hetzner, &format!("/v1/floating_ips{query}")).await;
    let list = body["floating_ips"].as_array().expect("a list");
    let ids = list.iter().filter_map(|one| one["id"].as_u64()).collect();
    (ids, body["meta"]["pagination"].clone())
}

#[tokio::test(start_paused = true)]
async fn lists_are_sorted_and_in_pages() {
    let hetzner = sixty();
    let (ids, page) = listed(&hetzner, "").await;
    assert_eq!((ids.len(), page["last_page"].as_u64()), (25, Some(3)));
    assert_eq!(
        (page["next_page"].as_u64(), page["previous_page"].as_u64()),
        (Some(2), None)
    );
    let (ids, _) = listed(&hetzner, "?page=2&per_page=500&sort=id:desc").await;
    assert_eq!(ids, (1..=10).rev().collect::<Vec<_>>());
    let path = "/v1/floating_ips?sort=colour";
    assert_eq!(refusal(&hetzner, "GET", path, Value::Null).await.0, 422);
}

#[tokio::test(start_paused = true)]
async fn lists_are_filtered_by_exact_name_and_by_label() {
    let hetzner = sixty();
    assert_eq!(listed(&hetzner, "?name=ip-7").await.0, [7]);
    assert_eq!(listed(&hetzner, "?name=ip-").await.0, [0_u64; 0]);
    for selector in ["parity%3Deven", "parity%20notin%20(even)", "parity,parity!=odd"] {
        let (_, page) = listed(&hetzner, &format!("?label_selector={selector}")).await;
        assert_eq!(page["total_entries"], 30, "{selector}");
    }
}

#[tokio::test(start_paused = true)]
async fn actions_are_listed_by_id_only() {
    let hetzner = hetzner(|_| {});
    let (_, body) = call(&hetzner, "POST", ASSIGN, json!({"server": 2})).await;
    let id = body["action"]["id"].as_u64().expect("an id");
    let path = format!("/v1/actions?sort=status&sort=id&id={id}&id=999");
    let (status, body) = get(&hetzner, &path).await;
    assert_eq!((status, body["actions"].as_array().map(Vec::len)), (200, Some(1)));
    let answer = refusal(&hetzner, "GET", "/v1/actions", Value::Null).await;
    assert_eq!(answer, (410, "deprecated_api_endpoint".to_owned()));
    let (_, body) = get(&hetzner, "/v1/floating_ips/10/actions?status=running").await;
    assert_eq!(body["actions"][0]["id"], id);
    let (_, body) = get(&hetzner, "/v1/floating_ips/10/actions?status=error").await;
    assert_eq!(body["actions"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn refusals_have_the_code_and_status_they_are_known_by() {
    let hetzner = hetzner(|_| {});
    put(
        &hetzner,
        json!({"floating_ips": [
            {"id": 10, "name": "egress", "ip": "192.0.2.10"},
            {"id": 11, "name": "other", "ip": "192.0.2.11"},
        ]}),
    );
    let cases = [
        ("GET", "/v1/floating_ips/99", Value::Null, 404, "not_found"),
        ("GET", "/v1/nothing", Value::Null, 404, "not_found"),
        ("GET", "/floating_ips", Value::Null, 404, "not_found"),
        ("PATCH", "/v1/floating_ips/10", json!({}), 405, "method_not_allowed"),
        ("GET", ASSIGN, Value::Null, 405, "method_not_allowed"),
        ("POST", ASSIGN, json!({"server": 99}), 404, "not_found"),
        ("POST", ASSIGN, json!({}), 422, "invalid_input"),
        ("POST", ASSIGN, json!({"server": "two"}), 422, "invalid_input"),
        ("POST", ASSIGN, Value::Null, 400, "json_error"),
        (
            "PUT",
            "/v1/floating_ips/10",
            json!({"name": "other"}),
            409,
            "uniqueness_error",
        ),
        ("GET", "/v1/floating_ips?page=0", Value::Null, 422, "invalid_input"),
    ];
    for (method, path, body, status, code) in cases {
        let answer = refusal(&hetzner, method, path, body).await;
        assert_eq!(answer, (status, code.to_owned()), "{method} {path}");
    }
}
