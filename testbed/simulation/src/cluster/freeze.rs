//! A future that can be frozen: while it is, it is not polled, as a paused process does not run.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// Freezes and thaws every future made with it.
#[derive(Clone, Debug, Default)]
pub(super) struct Freezer {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    frozen: bool,
    sleeping: Vec<Waker>,
}

impl Freezer {
    pub(super) fn freeze(&self) {
        self.with(|state| state.frozen = true);
    }

    pub(super) fn thaw(&self) {
        let sleeping = self.with(|state| {
            state.frozen = false;
            std::mem::take(&mut state.sleeping)
        });
        sleeping.into_iter().for_each(Waker::wake);
    }

    /// Whether the future may run now; if not, its waker is kept until it may.
    fn may_run(&self, context: &Context<'_>) -> bool {
        self.with(|state| {
            if state.frozen {
                state.sleeping.push(context.waker().clone());
            }
            !state.frozen
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A future under a [`Freezer`].
pub(super) struct Freezable<F> {
    freezer: Freezer,
    future: Pin<Box<F>>,
}

impl<F: Future> Freezable<F> {
    pub(super) fn new(freezer: &Freezer, future: F) -> Self {
        Self {
            freezer: freezer.clone(),
            future: Box::pin(future),
        }
    }
}

impl<F: Future> Future for Freezable<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        if self.freezer.may_run(context) {
            self.future.as_mut().poll(context)
        } else {
            Poll::Pending
        }
    }
}
