//! Servers in trouble: overload, time-outs, caches that are not filled yet.

use anyhow::{Result, ensure};
use aplomb_simulation::faults::{Fault, Faults, Rule};
use aplomb_simulation::trace::Trace;
use serde_json::{Value, json};

use crate::case::Case;
use crate::case_run::CaseRun;
use crate::faults::{ServerFault, behind};
use crate::verbs::{widget, with};

pub(super) const CASES: &[Case] = &[
    Case::new("trouble/overload-is-answered-in-plain-text", |t| Box::pin(overload(t))),
    Case::new("trouble/a-request-that-takes-too-long", |t| Box::pin(too_long(t))),
    // A race with the real server's cache, which a slow machine could lose.
    Case::new("trouble/a-cache-that-is-not-ready", |t| Box::pin(not_ready(t))).long(),
    Case::new("trouble/a-timeout-may-hide-a-commit", |t| Box::pin(hidden_commit(t))),
];

async fn overload(t: &CaseRun) -> Result<()> {
    let answer = t.server.in_trouble(ServerFault::Overload).await?.code(429)?;
    t.record(&answer).await;
    ensure!(
        answer.content_type == "text/plain; charset=utf-8",
        "{}",
        answer.content_type
    );
    ensure!(answer.retry_after.as_deref() == Some("1"), "{:?}", answer.retry_after);
    answer.has("", "Too many requests, please try again later.\n")?;
    Ok(())
}

/// The Status of the time-out filter, which says neither kind nor version.
fn timed_out() -> Value {
    json!({
        "metadata": {}, "status": "Failure",
        "message": "Timeout: request did not complete within the allotted timeout",
        "reason": "Timeout", "details": {}, "code": 504,
    })
}

async fn too_long(t: &CaseRun) -> Result<()> {
    let answer = t.server.in_trouble(ServerFault::Timeout).await?;
    t.record(&answer).await;
    answer.code(504)?.has("", timed_out())?;
    Ok(())
}

async fn not_ready(t: &CaseRun) -> Result<()> {
    let answer = t.server.in_trouble(ServerFault::Initializing).await?;
    t.record(&answer).await;
    ensure!(answer.retry_after.as_deref() == Some("1"), "{:?}", answer.retry_after);
    answer
        .refused(429, "TooManyRequests")?
        .says("storage is (re)initializing")?
        .has("/details/retryAfterSeconds", 1)?;
    Ok(())
}

async fn hidden_commit(t: &CaseRun) -> Result<()> {
    for (name, committed) in [("kept", true), ("lost", false)] {
        let faults = Faults::new("user", &Trace::new());
        faults.add(Rule::new(Fault::Timeout { committed }));
        let client = behind(&faults, &t.client);
        let made = widget(name, json!({}));
        let refused = t.as_user(&client, "POST", &t.widgets(), &made).await?;
        refused.code(504)?.has("", timed_out())?;
        let found = t.get(&t.widget(name)).await?;
        ensure!((found.code == 200) == committed, "{name}: {}", found.code);
        if committed {
            let change = with(&found.body, json!({ "spec": { "replicas": 5 } }));
            let refused = t.as_user(&client, "PUT", &t.widget(name), &change).await?;
            refused.code(504)?.has("", timed_out())?;
            t.get(&t.widget(name)).await?.has("/spec/replicas", 5)?;
            // Whoever tries again with the version of before is told that it is not any more.
            t.put(&t.widget(name), &change).await?.refused(409, "Conflict")?;
        }
    }
    Ok(())
}
