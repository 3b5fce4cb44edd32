//! Guarantee: wherever the operator crashes, and however a call fails, no key is leaked, no
//! plaintext is lost without a replacement, no key is created twice, and the state converges.
//!
//! A run is recorded first. Each of its effects, a write to the API server or a call to coderd, is
//! then a point at which the same simulation is repeated with a crash before and after it; each
//! call is a point at which it fails in every way.

use aplomb_simulation::{Crash, CrashPoint};

use crate::harness::{MODES, Mode, Played, Trouble, play};
use crate::lab::tally;
use crate::scenario::Story;
use crate::wire::Flaw;

const SEED: u64 = 5;

fn record_run(story: Story) -> Played {
    let played = play(story, SEED, &Trouble::default());
    assert_eq!(played.verdict, Ok(()), "without any fault");
    played
}

/// The story with a crash before and after every `step`-th effect. Returns the number of runs and
/// what went wrong.
pub fn crash_at(story: Story, step: usize) -> (usize, Vec<String>) {
    let effects = record_run(story).effects;
    let (mut runs, mut wrong) = (0, Vec::new());
    for (number, what) in effects.iter().step_by(step) {
        for point in [CrashPoint::BeforeSend, CrashPoint::AfterCommit] {
            let crash = Crash { effect: *number, point };
            let trouble = Trouble {
                crash: Some(crash),
                ..Trouble::default()
            };
            runs += 1;
            let verdict = play(story, SEED, &trouble).verdict;
            wrong.extend(verdict.err().map(|why| format!("{point:?} {number} {what}: {why}")));
        }
    }
    println!(
        "{story:?}: {} effects from the recorded trace, every {step}. before and after: {runs} crashes",
        effects.len()
    );
    (runs, wrong)
}

/// The story with failing calls: the cells of calls x modes whose numbers add up to a multiple of
/// `step`.
pub fn fail_at(story: Story, step: usize) -> (usize, Vec<String>) {
    let requests = record_run(story).requests;
    let (mut runs, mut wrong) = (0, Vec::new());
    for (at, what) in requests.iter().enumerate() {
        let modes = MODES.iter().enumerate();
        for (_, mode) in modes.filter(|(number, _)| (at + number) % step == 0) {
            let number = u64::try_from(at).expect("few") + 1;
            let trouble = Trouble {
                fault: Some((number, *mode)),
                ..Trouble::default()
            };
            runs += 1;
            let verdict = play(story, SEED, &trouble).verdict;
            wrong.extend(verdict.err().map(|why| format!("{mode:?} at {number} {what}: {why}")));
        }
    }
    let (calls, modes) = (requests.len(), MODES.len());
    println!(
        "{story:?}: {calls} calls of the recorded run x {modes} modes = {} cells, {runs} of them played",
        calls * modes
    );
    for (what, many) in tally(requests.iter().map(|it| endpoint(it))) {
        println!("  {many:>3} x {what}");
    }
    (runs, wrong)
}

/// A call without its IDs.
fn endpoint(request: &str) -> String {
    let parts = request.split('/');
    let part = |part: &str| match part.len() == 36 && part.matches('-').count() == 4 {
        true => "{id}".to_owned(),
        false => part.to_owned(),
    };
    parts.map(part).collect::<Vec<_>>().join("/")
}

fn assert_clean((runs, wrong): (usize, Vec<String>)) {
    let many = wrong.len();
    assert!(wrong.is_empty(), "{many} of {runs}:\n{}", wrong.join("\n"));
}

#[test]
fn a_crash_before_or_after_an_effect_changes_nothing_in_the_end() {
    assert_clean(crash_at(Story::Provisioner, 2));
}

#[test]
fn a_call_that_fails_in_any_way_changes_nothing_in_the_end() {
    assert_clean(fail_at(Story::Provisioner, 13));
}

#[test]
#[ignore = "every effect; make proof runs it"]
fn a_crash_before_or_after_every_effect_changes_nothing_in_the_end() {
    assert_clean(crash_at(Story::Provisioner, 1));
}

#[test]
#[ignore = "every call in every way; make proof runs it"]
fn every_call_that_fails_in_every_way_changes_nothing_in_the_end() {
    assert_clean(fail_at(Story::Provisioner, 1));
}

#[test]
fn a_leak_is_seen_by_the_same_harness() {
    for flaw in [Flaw::DeletesNothing, Flaw::MakesTwo] {
        let trouble = Trouble {
            flaw,
            ..Trouble::default()
        };
        let verdict = play(Story::Provisioner, SEED, &trouble).verdict;
        let why = verdict.expect_err("an undetected leak");
        println!("{flaw:?} is detected: {}", &why[..why.len().min(160)]);
    }
}

#[test]
fn the_same_seed_makes_the_same_run() {
    let trouble = Trouble {
        fault: Some((6, Mode::LostAfter)),
        crash: Some(Crash {
            effect: 12,
            point: CrashPoint::AfterCommit,
        }),
        ..Trouble::default()
    };
    let run = || play(Story::Provisioner, 11, &trouble).trace;
    let (one, two) = (run(), run());
    let differ = one.iter().zip(&two).find(|(one, two)| one != two);
    assert_eq!(differ, None, "the first line that differs");
    assert_eq!(one.len(), two.len());
    println!("{} lines of trace, equal in both runs", one.len());
}
