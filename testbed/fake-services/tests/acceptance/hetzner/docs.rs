//! Runs the examples of docs/hetzner-sim.md.

use super::{TOKEN, hetzner};

const PAGE: &str = include_str!("../../../../../docs/hetzner-sim.md");

#[tokio::test(start_paused = true)]
async fn the_examples_of_the_page_are_true() {
    let compared = crate::page::run(hetzner(|_| {}).service(), PAGE, TOKEN).await;
    assert!(compared >= 11, "{compared} answers are compared");
}
