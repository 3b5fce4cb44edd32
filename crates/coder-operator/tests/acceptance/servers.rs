//! Guarantee: a token is sent to a server that its Secret lists, and nowhere else, whatever an
//! object specifies.

use aplomb_fake_services::coderd::Role;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::claims::{leftover, proxy_unsettled, unsettled, wait_until_settled};
use crate::lab::{Around, Lab, NAMESPACE, SECRET, TEAM, minutes, on_box, seconds};
use crate::objects::server;
use crate::operator::Replica;
use crate::site;

/// A value that an attacker wants to obtain.
const PASSWORD: &str = "Pq8rT2vX4z-Kd7mB5nC1jF9hL3gS6wA0yE";
const DATABASE: &str = "database";

/// A server of the attacker.
fn credential_secret_spec() -> Value {
    json!({ "server": { "url": site::OTHER_URL, "tokenSecretRef": { "name": DATABASE, "key": "token" } } })
}

fn assert_no_requests(lab: &Lab) {
    let sent = lab.sent_requests().into_iter();
    let told = sent.filter(|(_, token)| token == PASSWORD);
    assert_eq!(told.count(), 0, "the password was sent");
    assert!(lab.other.requests(0).is_empty(), "the server was called");
}

#[test]
fn a_secret_that_names_no_server_is_sent_nowhere() {
    for named in [
        None,
        Some(String::new()),
        Some(format!("{}.evil.test", site::OTHER_URL)),
        Some("http://other.example.com".to_owned()),
        Some(site::URL.to_owned()),
    ] {
        on_box(1, move |lab| async move {
            let servers = match named {
                Some(named) => json!({ "coder.aplomb.dev/servers": named }),
                None => json!({}),
            };
            lab.put_secret(DATABASE, PASSWORD, &servers).await;
            let _replica = Replica::start(&lab, "first");
            lab.provisioner(TEAM, &credential_secret_spec()).await;
            lab.proxy("near", &credential_secret_spec()).await;
            sleep(minutes(30)).await;
            let ready = [lab.condition(TEAM, "Ready"), lab.proxy_condition("near", "Ready")];
            let command = format!("kubectl annotate secret -n {NAMESPACE} {DATABASE} coder.aplomb.dev/servers=");
            for said in ready {
                assert_eq!(said.reason, "TokenOfOtherServer", "{said:?}");
                assert!(said.message.contains(&command), "{said:?}");
            }
            // Nor is it sent during the deletion.
            lab.delete(TEAM).await;
            lab.delete_proxy("near").await;
            sleep(minutes(5)).await;
            assert!(!lab.exists(TEAM));
            assert_no_requests(&lab);
        });
    }
}

#[test]
fn the_command_of_the_condition_is_what_is_missing() {
    let around = Around::with_seed(2).with_server(|it| it.role = Role::Owner);
    around.run(|lab| async move {
        let old = json!({ "coder.aplomb.dev/servers": "https://old.example.com" });
        lab.put_secret(SECRET, site::TOKEN, &old).await;
        let _replica = Replica::start(&lab, "first");
        lab.provisioner(TEAM, &json!({})).await;
        lab.proxy("near", &json!({})).await;
        sleep(minutes(1)).await;
        let message = lab.condition(TEAM, "OperatorAccessReady").message;
        let value = message.split_once("coder.aplomb.dev/servers=");
        let value = value.and_then(|(_, rest)| rest.split_once(' '));
        let (value, _) = value.expect("a command");
        assert_eq!(value, format!("{},https://old.example.com", site::URL));
        let servers = json!({ "coder.aplomb.dev/servers": value });
        lab.put_secret(SECRET, site::TOKEN, &servers).await;
        let took = lab.wait_ready(TEAM, seconds(90)).await;
        println!("annotated as the condition says: Ready after {took:.0?}");
        wait_until_settled(minutes(5), || proxy_unsettled(&lab, "near"))
            .await
            .unwrap();
    });
}

#[test]
fn a_server_that_the_secret_names_no_more_gets_nothing_more() {
    on_box(3, |lab| async move {
        let _replica = lab.start_settled(&json!({})).await;
        lab.put_secret(SECRET, site::TOKEN, &json!({})).await;
        sleep(seconds(5)).await;
        let since = lab.coderd.last_request();
        lab.annotate(TEAM, "coder.aplomb.dev/rotate", "one").await;
        sleep(minutes(30)).await;
        assert!(lab.coderd.requests(since).is_empty(), "nothing is sent");
        assert_eq!(lab.condition(TEAM, "Ready").reason, "TokenOfOtherServer");
        let key = lab.status(TEAM).key.expect("a key").name;
        assert_eq!(lab.coderd.connected(&key), 2, "the daemons keep their key");
        // What is left there is reported.
        lab.delete(TEAM).await;
        sleep(minutes(5)).await;
        assert!(lab.coderd.requests(since).is_empty(), "nothing is sent");
        let told = lab.condition(TEAM, "Ready").message;
        assert!(told.contains(&key) && told.contains(site::URL), "{told}");
        lab.token(SECRET, site::TOKEN).await;
        wait_until_settled(minutes(20), || leftover(&lab, TEAM)).await.unwrap();
    });
}

#[test]
fn a_former_server_needs_to_be_named_too() {
    on_box(4, |lab| async move {
        let _replica = lab.start_settled(&json!({})).await;
        lab.put_secret(SECRET, site::TOKEN, &json!({})).await;
        let since = lab.coderd.last_request();
        let moved = json!({ "spec": { "server": server(&lab.other) } });
        lab.edit(TEAM, &moved).await;
        sleep(minutes(30)).await;
        assert!(lab.is_ready(TEAM), "{:?}", lab.condition(TEAM, "Ready"));
        assert!(lab.coderd.requests(since).is_empty(), "nothing is sent");
        lab.token(SECRET, site::TOKEN).await;
        wait_until_settled(minutes(30), || unsettled(&lab, TEAM)).await.unwrap();
        assert!(lab.coderd.names().is_empty(), "its key is deleted");
    });
}
