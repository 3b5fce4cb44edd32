//! Shows that the crash tests can fail: an operator whose effect is not idempotent is caught.
//!
//! The toy moves the floating IP to the next server whenever it starts with an unfinished job, and
//! marks the job as done afterwards. A crash between the two moves it twice.

use aplomb_api::egress::labels::GATEWAY;
use aplomb_simulation::{Crash, CrashPoint, Process};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::time::sleep;

use crate::lab::{Lab, WEB, floating_ip, on_box, seconds};
use crate::nodes;

/// How the toy chooses the server to move to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Choice {
    /// The server after the present holder: a different one each time.
    Next,
    /// The server that the job names.
    Named,
}

/// Runs the job if it is not done yet.
async fn create_next(process: Process, lab: Lab, choice: Choice) {
    let client: Client = process.plain_client();
    let jobs: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let job = jobs.get("job").await.unwrap();
    if job.data.is_some_and(|data| data.contains_key("done")) {
        std::future::pending::<()>().await;
    }
    let holder = lab.hetzner.holder(floating_ip(0)).unwrap_or(nodes::server(0));
    let server = match choice {
        Choice::Next => holder + 1,
        Choice::Named => nodes::server(1),
    };
    let moved = async { lab.move_manually(Some(server)) };
    process.effect("assign", moved).await;
    let params = PatchParams::default();
    let node = usize::try_from(server - nodes::server(0)).unwrap();
    let labels: Api<Node> = Api::all(client);
    for number in 0..3 {
        let value = (number == node).then_some(WEB);
        let label = json!({ "metadata": { "labels": { GATEWAY: value } } });
        let patch = Patch::Merge(label);
        labels.patch(&nodes::name(number), &params, &patch).await.unwrap();
    }
    let done = Patch::Merge(json!({ "data": { "done": "yes" } }));
    jobs.patch("job", &params, &done).await.unwrap();
    std::future::pending::<()>().await;
}

/// Where the floating IP and the labels end up, and how many effects there were.
fn run(choice: Choice, crash: Option<Crash>) -> (Option<u64>, Vec<String>, u64) {
    on_box(1, move |lab| async move {
        lab.candidates(WEB, 3).await;
        lab.floating_ip(0, WEB, |it| it.server = Some(nodes::server(0)));
        let jobs: Api<ConfigMap> = Api::namespaced(lab.user(), "default");
        let job = serde_json::from_value(json!({ "metadata": { "name": "job" } })).unwrap();
        jobs.create(&PostParams::default(), &job).await.unwrap();
        let inside = lab.clone();
        let toy = lab
            .cluster
            .start("toy", move |process| create_next(process, inside.clone(), choice));
        crash.into_iter().for_each(|crash| toy.crash_at(crash));
        sleep(seconds(30)).await;
        let labelled = lab.labeled.current_nodes(WEB).into_iter().collect();
        (lab.hetzner.holder(floating_ip(0)), labelled, toy.effects())
    })
}

/// The crashes after which the end state differs from a run without crashes.
fn find_failures(choice: Choice) -> Vec<Crash> {
    let (holder, labelled, effects) = run(choice, None);
    let crashes = (1..=effects).flat_map(|effect| {
        let points = [CrashPoint::BeforeSend, CrashPoint::AfterCommit];
        points.map(|point| Crash { effect, point })
    });
    let ends_otherwise = |crash: &Crash| {
        let end = run(choice, Some(*crash));
        (end.0, &end.1) != (holder, &labelled)
    };
    crashes.filter(ends_otherwise).collect()
}

#[test]
fn an_effect_that_is_not_idempotent_is_caught() {
    let caught_moves = find_failures(Choice::Next);
    println!(
        "an effect that is not idempotent: {} crashes show it, such as {:?}",
        caught_moves.len(),
        caught_moves.first()
    );
    assert!(!caught_moves.is_empty());
    assert_eq!(find_failures(Choice::Named), [], "the same one, made idempotent");
}
