//! No token and no key is in anything that people read, whatever a server says.

use std::collections::BTreeMap;

use super::*;
use crate::client::ProxyDisplay;

fn assert_no_secret(text: &str) {
    for secret in [SECRET, PLAIN] {
        for at in 0..=secret.len() - 16 {
            assert!(!text.contains(&secret[at..at + 16]), "{text}");
        }
    }
}

/// What comes of a call, as people would read it.
async fn describe<T: std::fmt::Debug>(answer: impl Future<Output = Result<T, Pushback>>) -> String {
    match answer.await {
        Ok(value) => format!("{value:?} {value:#?}"),
        Err(pushback) => format!("{pushback} {pushback:?} {pushback:#?}"),
    }
}

/// Everything that can be asked, each by an object of its own: the gate of one would hide the others.
async fn describe_all(stage: &Stage, bypass: bool) -> String {
    let (server, looks, tags) = (stage.server(), ProxyDisplay::default(), BTreeMap::new());
    let objects: Vec<_> = (0..10).map(|n| object(&format!("o{n}"))).collect();
    let asker = |n: usize| Caller {
        bypass,
        ..stage.caller(&objects[n])
    };
    [
        format!("{server:?} {:?}", stage.servers),
        describe(server.organization(&asker(0), "default")).await,
        describe(server.keys(&asker(1), "o-1", MINUTE)).await,
        describe(server.daemons(&asker(2), "o-1", MINUTE)).await,
        describe(server.entitlements(&asker(3), MINUTE)).await,
        describe(server.proxy(&asker(4), "eu", MINUTE)).await,
        describe(server.create_key(&asker(5), "o-1", "new", &tags)).await,
        describe(server.delete_key(&asker(6), "o-1", "new")).await,
        describe(server.create_proxy(&asker(7), &looks)).await,
        describe(server.patch_proxy(&asker(8), "p-1", &looks, true)).await,
        describe(server.delete_proxy(&asker(9), "p-1")).await,
        stage.samples("").join("\n"),
    ]
    .join("\n")
}

#[tokio::test(start_paused = true)]
async fn a_server_that_echoes_every_secret_in_every_answer_is_not_repeated() {
    for status in [200, 201, 302, 400, 401, 403, 404, 409, 412, 422, 428, 429, 500, 503] {
        for form in 0..3 {
            let stage = Stage::new();
            stage.play(move |_| {
                let text = format!("token {SECRET}, key {PLAIN}");
                let body = match form {
                    0 => text,
                    1 => format!(r#"{{"message": "{text}", "detail": "{text}"}}"#),
                    _ => format!(r#"["{text}"]"#),
                };
                Some(Some((status, body)))
            });
            assert_no_secret(&describe_all(&stage, form == 1).await);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn success_shows_nothing_either() {
    let stage = Stage::new();
    let said = describe_all(&stage, false).await;
    assert_no_secret(&said);
    assert!(said.contains("NewKey"), "{said}");
    stage.play(|_| Some(None));
    assert_no_secret(&describe_all(&stage, false).await);
}
