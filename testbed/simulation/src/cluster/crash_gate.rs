//! The gate every effect of a component passes: where it is counted, and where a crash is placed.
//!
//! An effect is a write to the API server or anything the component itself declares as one. A
//! crash takes the component down before the effect is sent, or after it took effect and before
//! the component learns of it. What has crashed sends nothing any more, whoever still holds its
//! client.

use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::trace::Trace;

/// On which side of an effect a crash falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoint {
    /// The effect does not happen.
    BeforeSend,
    /// The effect happens; the answer is lost.
    AfterCommit,
}

/// A crash at a chosen effect of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// Which of the component's effects, counted from 1 over all its lives.
    pub effect: u64,
    /// On which side of it.
    pub point: CrashPoint,
}

/// Counts the effects of one component, over all its lives.
#[derive(Clone, Debug)]
pub(super) struct CrashGate {
    name: Arc<str>,
    trace: Trace,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    effects: u64,
    crashes: Vec<Crash>,
}

/// One life of a component: ends with a crash.
#[derive(Clone, Debug)]
pub(super) struct ProcessLife {
    gate: CrashGate,
    crashed: watch::Sender<bool>,
}

impl CrashGate {
    pub(super) fn new(name: &str, trace: &Trace) -> Self {
        Self {
            name: name.into(),
            trace: trace.clone(),
            state: Arc::default(),
        }
    }

    pub(super) fn crash_at(&self, crash: Crash) {
        self.with(|state| state.crashes.push(crash));
    }

    pub(super) fn effects(&self) -> u64 {
        self.with(|state| state.effects)
    }

    pub(super) fn live(&self) -> ProcessLife {
        ProcessLife {
            gate: self.clone(),
            crashed: watch::Sender::new(false),
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ProcessLife {
    /// Lets one effect happen, with the crashes that were placed at it.
    pub(super) async fn effect<T>(&self, what: &str, effect: impl Future<Output = T>) -> T {
        self.ensure_alive().await;
        let number = self.gate.with(|state| {
            state.effects += 1;
            state.effects
        });
        self.gate
            .trace
            .record(&self.gate.name, format_args!("effect {number} {what}"));
        self.crash_if(Crash {
            effect: number,
            point: CrashPoint::BeforeSend,
        })
        .await;
        let result = effect.await;
        self.crash_if(Crash {
            effect: number,
            point: CrashPoint::AfterCommit,
        })
        .await;
        result
    }

    /// Never returns once the component has crashed.
    pub(super) async fn ensure_alive(&self) {
        if *self.crashed.borrow() {
            pending::<()>().await;
        }
    }

    /// Ends this life, once; `how` is what the trace says of it.
    pub(super) fn end(&self, how: &str) {
        if !self.crashed.send_replace(true) {
            self.gate.trace.record(&self.gate.name, format_args!("{how}"));
        }
    }

    /// Returns when the component has crashed.
    pub(super) async fn crashed(&self) {
        // The sender is `self`'s own, so the wait cannot fail.
        drop(self.crashed.subscribe().wait_for(|crashed| *crashed).await);
    }

    async fn crash_if(&self, here: Crash) {
        let placed = self.gate.with(|state| state.crashes.contains(&here));
        if placed {
            self.end(&format!("crash {:?} effect {}", here.point, here.effect));
            pending::<()>().await;
        }
    }
}
