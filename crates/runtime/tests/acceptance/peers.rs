//! Other implementations in the same burst: client-go by the arithmetic of its default limiter, kube-rs's
//! `Controller` by running it.

use std::sync::Arc;
use std::time::Duration;

use aplomb_simulation::faults::{Fault, Match, Rule};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use serde_json::json;

use crate::conflicts::events;
use crate::lab::{Answers, Lab, on_box, page, seconds, wait_until};
use crate::page::Page;

/// The wait of kube-rs's own examples after an error, within the range they use (1 s to 10 s).
pub const KUBE_RS_RETRY: Duration = Duration::from_secs(5);

/// The wait after the last of `length` conflicts under client-go's default limiter: 5 ms doubled per
/// failure up to 1,000 s. An event skips the wait, but the failure after it still counts.
pub fn client_go(length: u64) -> Duration {
    let delay = |failures: u64| {
        let doubled = 0.005 * 2f64.powi(i32::try_from(failures - 1).unwrap_or(i32::MAX));
        Duration::from_secs_f64(doubled.min(1_000.0))
    };
    delay(length)
}

/// The same, measured with kube-rs's `Controller`.
pub fn kube_rs(length: u64) -> Duration {
    on_box(length, move |lab| async move { kube_rs_burst(lab, length).await })
}

async fn kube_rs_burst(lab: Lab, length: u64) -> Duration {
    let pages = page(&lab).await;
    let (client, faults) = lab.client("kube-rs");
    let maps = Match::writes().resource("configmaps");
    faults.add(Rule::new(Fault::Conflict).on(maps).first(length));
    let answers = Answers::default();
    let client = answers.for_client(&client);
    let controller = Controller::new(Api::<Page>::all(client.clone()), watcher::Config::default());
    let run = controller
        .run(reconcile, |_, _, _| Action::requeue(KUBE_RS_RETRY), Arc::new(client))
        .for_each(|_| async {});
    let limit = seconds(5 * length + 60);
    let landed = wait_until(limit, "a write lands", || async {
        answers.has_written("/configmaps/front")
    });
    tokio::select! { biased;
        _ = landed => {}
        () = async { events(pages, &answers, length).await; std::future::pending().await } => {}
        () = run => {}
    }
    answers.burst("/configmaps/front").silence
}

async fn reconcile(page: Arc<Page>, client: Arc<kube::Client>) -> Result<Action, kube::Error> {
    let maps: Api<ConfigMap> = Api::namespaced((*client).clone(), "default");
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "front" }, "data": { "title": page.spec.title } });
    let apply = PatchParams::apply("kube-rs").force();
    maps.patch("front", &apply, &Patch::Apply(map)).await?;
    Ok(Action::await_change())
}
