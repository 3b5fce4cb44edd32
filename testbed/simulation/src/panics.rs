//! Panics of a run, caught or not: a defect that a restart or a `catch_unwind` hides must still fail it.
//!
//! A world runs on one thread, so a panic hook that looks at the thread sees every panic of its run:
//! of a component, of a task nobody waits for, of a pass that the program itself catches, of the
//! server. Threads without a name, and those of `spawn_blocking`, count for the run that is on: a test
//! thread has the name of its test.

use std::cell::RefCell;
use std::panic::{self, PanicHookInfo};
use std::sync::{Mutex, Once, PoisonError};
use std::thread;

use tokio::task::JoinError;

thread_local! {
    /// Panics of the run on this thread; `None` on a thread that runs no world.
    static SEEN: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Panics on threads that run no world and no test.
static ASTRAY: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// From now on every panic on this thread is recorded.
pub(super) fn watch() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let former = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            record(info);
            former(info);
        }));
    });
    SEEN.set(Some(Vec::new()));
    take_astray();
}

fn take_astray() -> Vec<String> {
    std::mem::take(&mut *ASTRAY.lock().unwrap_or_else(PoisonError::into_inner))
}

fn record(info: &PanicHookInfo<'_>) {
    let text = info.payload_as_str().unwrap_or("a value that is not text");
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let said = format!("{text} at {place}");
    // A panic inside this function, or after the end of the thread's locals, has nowhere to go.
    let _recorded = SEEN.try_with(|seen| match seen.try_borrow_mut() {
        Ok(mut seen) if seen.is_some() => seen.get_or_insert_default().push(said),
        Ok(_) if is_helper() => {
            let mut astray = ASTRAY.lock().unwrap_or_else(PoisonError::into_inner);
            astray.push(said);
        }
        _ => {}
    });
}

fn is_helper() -> bool {
    let name = thread::current().name().map(str::to_owned);
    name.is_none_or(|name| name.starts_with("tokio-"))
}

/// A task ended with this panic, which the hook has seen unless it was passed on from another thread.
pub(super) fn ended(error: JoinError) {
    let Ok(panic) = error.try_into_panic() else {
        return;
    };
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    let text = text.unwrap_or("a value that is not text");
    SEEN.with_borrow_mut(|seen| {
        let seen = seen.get_or_insert_default();
        if !seen.iter().any(|it| it.starts_with(text)) {
            seen.push(text.to_owned());
        }
    });
}

/// Fails unless the panics so far are exactly of the kinds in `expected`: each must have a text of
/// `expected` in it, and each text must have been seen.
///
/// # Panics
/// As said.
pub(super) fn settle(expected: &[&str]) {
    let mut seen = SEEN.take().unwrap_or_default();
    seen.append(&mut take_astray());
    let stray: Vec<&String> = seen
        .iter()
        .filter(|panic| !expected.iter().any(|text| panic.contains(text)))
        .collect();
    assert!(
        stray.is_empty(),
        "the run panicked, and the test does not expect it: {stray:#?}"
    );
    let missing: Vec<_> = expected
        .iter()
        .filter(|text| !seen.iter().any(|panic| panic.contains(**text)))
        .collect();
    assert!(
        missing.is_empty(),
        "the test expects panics that did not happen: {missing:?}"
    );
}
