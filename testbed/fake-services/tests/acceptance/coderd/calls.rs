//! The calls: bodies, the order of the checks, roles, licence and versions.

use bytes::Bytes;
use http::Request;
use serde_json::{Value, json};

use super::{BUILDER, KEYS, MEMBER, OTHER, OWNER, PROXIES, call, call_as, coderd, get, new_key, put, send, status};

#[tokio::test(start_paused = true)]
async fn a_key_is_made_listed_and_deleted() {
    let coderd = coderd(|_| {});
    let new = json!({"name": "Build-EU", "tags": {"region": "eu"}});
    let (status, body) = call(&coderd, "POST", KEYS, new.clone()).await;
    assert_eq!(status, 201);
    let secret = body["key"].as_str().expect("a plaintext");
    assert!(secret.len() == 43 && secret.bytes().all(|b| b.is_ascii_alphanumeric()));
    let (_, list) = get(&coderd, KEYS).await;
    let (_, organization) = get(&coderd, "/api/v2/organizations/default").await;
    let key = json!({
        "id": list[0]["id"], "created_at": "2026-01-01T00:00:00Z", "name": "build-eu",
        "organization": organization["id"], "tags": {"region": "eu"},
    });
    assert_eq!(list, json!([key]));
    assert_eq!(coderd.key_with(secret).map(|key| key.name), Some("build-eu".into()));
    let (status, body) = call(&coderd, "POST", KEYS, new).await;
    let said = "Provisioner key with name 'Build-EU' already exists in organization";
    assert_eq!((status, body["message"].as_str()), (409, Some(said)));
    let path = format!("{KEYS}/BUILD-eu");
    assert_eq!(call(&coderd, "DELETE", &path, Value::Null).await, (204, Value::Null));
    assert_eq!(call(&coderd, "DELETE", &path, Value::Null).await.0, 404);
    assert_eq!(get(&coderd, KEYS).await.1, json!([]));
}

#[tokio::test(start_paused = true)]
async fn names_that_coderd_refuses_are_refused_with_the_field() {
    let coderd = coderd(|_| {});
    let long = "x".repeat(65);
    for name in ["", long.as_str(), "built-in", "User-Auth", "PSK"] {
        let (status, body) = call(&coderd, "POST", KEYS, json!({"name": name})).await;
        assert_eq!((status, &body["validations"][0]["field"]), (400, &json!("name")));
    }
    assert_eq!(call(&coderd, "POST", KEYS, json!("text")).await.0, 400);
    new_key(&coderd, &"y".repeat(64)).await;
    let path = format!("{KEYS}/psk");
    assert_eq!(call(&coderd, "DELETE", &path, Value::Null).await.0, 400);
}

#[tokio::test(start_paused = true)]
async fn an_organization_is_found_by_name_by_id_and_as_default() {
    let coderd = coderd(|_| {});
    let (_, by_name) = get(&coderd, "/api/v2/organizations/coder").await;
    assert_eq!(
        (by_name["name"].as_str(), by_name["is_default"].as_bool()),
        (Some("coder"), Some(true))
    );
    let by_id = format!("/api/v2/organizations/{}", by_name["id"].as_str().expect("an id"));
    assert_eq!(get(&coderd, &by_id).await.1, by_name);
    assert_eq!(get(&coderd, "/api/v2/organizations/default").await.1, by_name);
    let (status, body) = get(&coderd, "/api/v2/organizations/none").await;
    let vague = "Resource not found or you do not have access to this resource";
    assert_eq!((status, body["message"].as_str()), (404, Some(vague)));
    let (_, seen) = call_as(&coderd, OTHER, "GET", "/api/v2/organizations", Value::Null).await;
    assert_eq!(seen.as_array().map(Vec::len), Some(1));
}

#[tokio::test(start_paused = true)]
async fn checks_come_in_the_servers_order() {
    let coderd = coderd(|config| config.licensed = false);
    let elsewhere = "/api/v2/organizations/none/provisionerkeys";
    // Token, organisation, licence; for proxies the licence comes first.
    assert_eq!(status(&coderd, "nobody", "GET", elsewhere).await, 401);
    assert_eq!(status(&coderd, OWNER, "GET", elsewhere).await, 404);
    assert_eq!(status(&coderd, OTHER, "GET", KEYS).await, 404);
    assert_eq!(status(&coderd, OWNER, "GET", KEYS).await, 403);
    assert_eq!(status(&coderd, "nobody", "GET", PROXIES).await, 403);
    assert_eq!(status(&coderd, "", "GET", "/api/v2/users/me").await, 401);
    let (code, body) = call_as(&coderd, "", "GET", "/api/v2/entitlements", Value::Null).await;
    let feature = json!({"entitlement": "not_entitled", "enabled": false});
    assert_eq!((code, &body["has_license"]), (200, &json!(false)));
    assert_eq!(body["features"]["external_provisioner_daemons"], feature);
    put(&coderd, json!({"licensed": true}));
    assert_eq!(status(&coderd, "nobody", "GET", PROXIES).await, 401);
    assert_eq!(status(&coderd, OWNER, "GET", KEYS).await, 200);
    let (_, body) = get(&coderd, "/api/v2/entitlements").await;
    assert_eq!(body["features"]["workspace_proxy"]["entitlement"], "entitled");
}

#[tokio::test(start_paused = true)]
async fn a_build_without_paid_features_has_none_of_their_paths() {
    let coderd = coderd(|config| config.agpl = true);
    for path in [KEYS, PROXIES, "/api/v2/entitlements", "/api/v2/provisionerkeys/x"] {
        assert_eq!(status(&coderd, OWNER, "GET", path).await, 404, "{path}");
    }
    assert_eq!(
        status(&coderd, OWNER, "GET", "/api/v2/organizations/default").await,
        200
    );
    assert_eq!(status(&coderd, "", "GET", "/api/v2/buildinfo").await, 200);
}

#[tokio::test(start_paused = true)]
async fn roles_may_what_the_server_lets_them() {
    let coderd = coderd(|_| {});
    new_key(&coderd, "old").await;
    let old = format!("{KEYS}/old");
    assert_eq!(status(&coderd, MEMBER, "GET", KEYS).await, 200);
    assert_eq!(status(&coderd, MEMBER, "POST", KEYS).await, 500);
    assert_eq!(status(&coderd, MEMBER, "DELETE", &old).await, 500);
    assert_eq!(status(&coderd, OTHER, "DELETE", &old).await, 404);
    assert_eq!(status(&coderd, BUILDER, "DELETE", &old).await, 204);
    assert_eq!(status(&coderd, BUILDER, "POST", KEYS).await, 201);
    let other = "/api/v2/organizations/other/provisionerkeys";
    assert_eq!(status(&coderd, OTHER, "POST", other).await, 201);
    assert_eq!(status(&coderd, BUILDER, "POST", PROXIES).await, 500);
    assert_eq!(status(&coderd, OWNER, "POST", PROXIES).await, 201);
    assert_eq!(
        status(&coderd, BUILDER, "DELETE", &format!("{PROXIES}/some")).await,
        404
    );
    let (_, me) = call_as(&coderd, BUILDER, "GET", "/api/v2/users/me", Value::Null).await;
    assert_eq!(me["roles"][0]["name"], "template-admin");
}

#[tokio::test(start_paused = true)]
async fn a_daemon_checks_its_key_and_the_log_does_not_have_it() {
    let coderd = coderd(|_| {});
    let secret = new_key(&coderd, "build").await;
    let check = async |key: &str| {
        let request = Request::get(format!("/api/v2/provisionerkeys/{key}"))
            .header("Coder-Provisioner-Daemon-Key", key)
            .body(Bytes::new())
            .expect("a request");
        send(&coderd, request).await.expect("an answer")
    };
    let answer = check(&secret).await;
    let body: Value = serde_json::from_slice(answer.body()).expect("JSON");
    assert_eq!((answer.status().as_u16(), body["name"].as_str()), (200, Some("build")));
    assert_eq!(check("short").await.status(), 400);
    assert_eq!(check(&"z".repeat(43)).await.status(), 401);
    let (_, state) = get(&coderd, "/_sim/state").await;
    let (_, log) = get(&coderd, "/_sim/requests").await;
    for text in [state.to_string(), log.to_string(), format!("{coderd:?}")] {
        assert!(!text.contains(&secret) && !text.contains(OWNER), "{text}");
    }
    assert!(log.to_string().contains("/api/v2/provisionerkeys/["));
}

#[tokio::test(start_paused = true)]
async fn a_proxy_is_registered_changed_given_a_new_token_and_deleted() {
    let coderd = coderd(|_| {});
    let new = json!({"name": "Sydney"});
    let (status, body) = call(&coderd, "POST", PROXIES, new.clone()).await;
    assert_eq!(
        (status, body["proxy"]["status"]["status"].as_str()),
        (201, Some("unregistered"))
    );
    let id = body["proxy"]["id"].as_str().expect("an id").to_owned();
    let first = body["proxy_token"].as_str().expect("a token").to_owned();
    assert_eq!(first.strip_prefix(&format!("{id}:")).map(str::len), Some(64));
    assert_eq!(call(&coderd, "POST", PROXIES, new).await.0, 409);
    assert_eq!(call(&coderd, "POST", PROXIES, json!({"name": "Primary"})).await.0, 400);
    let path = format!("{PROXIES}/{id}");
    let (status, body) = call(
        &coderd,
        "PATCH",
        &path,
        json!({"id": id, "name": "sydney", "icon": "/x.svg"}),
    )
    .await;
    assert_eq!(
        (status, &body["validations"][0]["field"]),
        (400, &json!("display_name"))
    );
    let looks = json!({"id": id, "name": "sydney", "display_name": "Sydney", "icon": "/x.svg"});
    let (status, body) = call(&coderd, "PATCH", &path, looks.clone()).await;
    assert_eq!((status, body["proxy_token"].as_str()), (200, Some("")));
    let mut renew = looks;
    renew["regenerate_token"] = json!(true);
    let (_, body) = call(&coderd, "PATCH", &path, renew).await;
    assert_ne!(body["proxy_token"].as_str(), Some(first.as_str()));
    let (_, seen) = get(&coderd, &format!("{PROXIES}/sydney")).await;
    assert_eq!(
        (&seen["display_name"], &seen["icon_url"]),
        (&json!("Sydney"), &json!("/x.svg"))
    );
    let (_, list) = get(&coderd, PROXIES).await;
    assert_eq!(list["regions"].as_array().map(Vec::len), Some(2));
    assert_eq!(call(&coderd, "DELETE", &path, Value::Null).await.0, 200);
    let (status, gone) = get(&coderd, &path).await;
    assert_eq!((status, &gone["deleted"]), (200, &json!(true)));
    let primary = format!("{PROXIES}/primary");
    assert_eq!(call(&coderd, "DELETE", &primary, Value::Null).await.0, 400);
}

#[tokio::test(start_paused = true)]
async fn a_proxy_is_as_healthy_as_the_tokens_of_its_servers() {
    let coderd = coderd(|_| {});
    let (_, body) = call(&coderd, "POST", PROXIES, json!({"name": "sydney"})).await;
    let (id, old) = (&body["proxy"]["id"], body["proxy_token"].as_str().expect("a token"));
    let first = coderd.start_proxy_server(None, old);
    assert_eq!(coderd.proxy_health("sydney"), Some("ok"));
    let renew = json!({"id": id, "name": "sydney", "display_name": "S", "icon": "/x.svg", "regenerate_token": true});
    let (_, body) = call(&coderd, "PATCH", &format!("{PROXIES}/sydney"), renew).await;
    assert_eq!(coderd.proxy_health("sydney"), Some("unhealthy"));
    let second = coderd.start_proxy_server(None, body["proxy_token"].as_str().expect("a token"));
    assert_eq!(coderd.proxy_health("sydney"), Some("ok"));
    coderd.stop_proxy_server(first);
    assert_eq!(coderd.proxy_health("sydney"), Some("ok"));
    coderd.stop_proxy_server(second);
    assert_eq!(coderd.proxy_health("sydney"), Some("unreachable"));
}

/// As the real server: the row stays and is shown by its id, and only the name is free.
#[tokio::test(start_paused = true)]
async fn a_deleted_proxy_is_shown_by_its_id_and_not_by_its_name() {
    let coderd = coderd(|_| {});
    let (_, made) = call(&coderd, "POST", PROXIES, json!({"name": "sydney"})).await;
    let id = made["proxy"]["id"].as_str().expect("an id").to_owned();
    let token = made["proxy_token"].as_str().expect("a token");
    let server = coderd.start_proxy_server(None, token);
    let (by_id, by_name) = (format!("{PROXIES}/{id}"), format!("{PROXIES}/sydney"));
    assert_eq!(get(&coderd, &format!("{PROXIES}/Sydney")).await.0, 404);
    assert_eq!(call(&coderd, "DELETE", &by_name, Value::Null).await.0, 200);
    let (status, body) = get(&coderd, &by_id).await;
    let told = (status, &body["deleted"], &body["healthy"]);
    assert_eq!(told, (200, &json!(true), &json!(false)));
    assert_eq!(body["status"]["status"], "unknown");
    assert_eq!(get(&coderd, &by_name).await.0, 404);
    let (_, list) = get(&coderd, PROXIES).await;
    assert_eq!(list["regions"].as_array().map(Vec::len), Some(1));
    let running = coderd.state().proxy_servers;
    assert!(running.iter().all(|it| it.id == server && !it.accepted));

    let (status, again) = call(&coderd, "POST", PROXIES, json!({"name": "SYDNEY"})).await;
    assert_eq!(status, 201);
    assert_ne!(again["proxy"]["id"], json!(id));
    let renew = json!({"id": id, "name": "old", "display_name": "S", "icon": "/x", "regenerate_token": true});
    let (status, body) = call(&coderd, "PATCH", &by_id, renew).await;
    assert_eq!((status, &body["proxy"]["deleted"]), (200, &json!(true)));
    coderd.start_proxy_server(None, body["proxy_token"].as_str().expect("a token"));
    assert!(coderd.state().proxy_servers.iter().all(|it| !it.accepted));

    let (status, body) = call(&coderd, "PATCH", &by_id, json!({"name": "x", "icon": "/x"})).await;
    let fields = body["validations"].as_array().expect("fields");
    let fields: Vec<_> = fields.iter().map(|it| &it["field"]).collect();
    assert_eq!((status, fields), (400, vec![&json!("id"), &json!("display_name")]));
    let state = serde_json::to_value(coderd.state()).expect("a state");
    put(&coderd, json!({"proxies": state["proxies"]}));
    assert_eq!(get(&coderd, &by_id).await.1["deleted"], json!(true));
}
