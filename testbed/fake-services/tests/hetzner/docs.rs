//! Runs the examples of docs/hetzner-sim.md.

#[path = "../common/page.rs"]
#[allow(unreachable_pub, reason = "included by several crates")]
mod page;

use super::{TOKEN, hetzner};

const PAGE: &str = include_str!("../../../../docs/hetzner-sim.md");

#[tokio::test(start_paused = true)]
async fn the_examples_of_the_page_are_true() {
    let compared = page::run(hetzner(|_| {}).service(), PAGE, TOKEN).await;
    assert!(compared >= 11, "{compared} answers are compared");
}
