//! Runs the examples of docs/coderd-sim.md.

use aplomb_apimachinery::clock::Clock;
use aplomb_fake_services::coderd::{Config, FakeCoderd, OWNER_TOKEN};

const PAGE: &str = include_str!("../../../../../docs/coderd-sim.md");

#[tokio::test(start_paused = true)]
async fn the_examples_of_the_page_are_true() {
    let epoch = "2026-01-01T00:00:00Z".parse().expect("a time");
    let coderd = FakeCoderd::new(Config::new(Clock::new(epoch, 7), 7, OWNER_TOKEN));
    let compared = crate::page::run(coderd.service(), PAGE, OWNER_TOKEN).await;
    assert!(compared >= 14, "{compared} answers are compared");
}
