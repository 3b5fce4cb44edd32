//! The way of a write to the disk: steps are queued in memory order and put on disk in groups by one
//! thread, so that many writes share the cost of one.
//!
//! A write is answered, and shown to watchers, when it is on disk. One that cannot be put there is
//! taken back in memory as well, together with everything that was built on it.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;

use tokio::sync::watch;

use super::State;
use super::disk::{File, Lock, Step};

/// Writes of one group: a bound on what is held in memory twice, far above what a disk asks for.
const GROUP: usize = 4096;

/// How far the disk is behind memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// Everything up to this revision is on disk.
    durable: u64,
    /// The revision that was left each time writes were taken back.
    setbacks: Vec<u64>,
}

/// A state of the store that was ahead of the disk when somebody saw it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    revision: u64,
    setbacks: usize,
}

/// What was seen was taken back: the disk did not take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost;

impl Progress {
    pub(super) fn at(durable: u64) -> Self {
        Self {
            durable,
            setbacks: Vec::new(),
        }
    }

    pub(super) fn advance(&mut self, durable: u64) {
        self.durable = durable;
    }

    /// Everything after `left` was taken back.
    pub(super) fn set_back(&mut self, left: u64) {
        self.setbacks.push(left);
    }

    /// What somebody sees now who sees `revision`; `None` where the disk has it.
    pub(super) fn ahead(&self, revision: u64) -> Option<Seen> {
        (revision > self.durable).then_some(Seen {
            revision,
            setbacks: self.setbacks.len(),
        })
    }

    /// `None` while the disk is behind.
    pub(super) fn verdict(&self, seen: Seen) -> Option<Result<(), Lost>> {
        match self.setbacks.get(seen.setbacks) {
            Some(left) if seen.revision > *left => Some(Err(Lost)),
            Some(_) => Some(Ok(())),
            None => (seen.revision <= self.durable).then_some(Ok(())),
        }
    }
}

/// The sending side, held by the state; the writer ends with it.
pub(super) struct Journal {
    steps: Sender<Step>,
    progress: watch::Receiver<Progress>,
}

/// The writer's thread, held by every clone of a store. Dropping the last waits until everything is
/// on disk and the directory is free. It is not held by the state, which the writer itself may be
/// the last to let go.
#[derive(Debug)]
pub(super) struct Closing(Option<JoinHandle<()>>);

impl Journal {
    /// Starts the writer of a directory, which takes back in `state` what it cannot write.
    pub(super) fn start(file: File, lock: Lock, state: Weak<Mutex<State>>) -> (Self, Closing) {
        let (steps, queue) = channel();
        let (announce, progress) = watch::channel(Progress::at(file.durable()));
        let writer = Writer {
            file,
            _lock: lock,
            queue,
            announce,
            backlog: Vec::new(),
        };
        let thread = std::thread::spawn(move || writer.run(&state));
        (Self { steps, progress }, Closing(Some(thread)))
    }

    pub(super) fn record(&self, step: Step) {
        // Only a writer that has ended is not there to receive; its readers then wait in vain.
        if self.steps.send(step).is_err() {
            tracing::error!("The data directory has no writer any more");
        }
    }

    /// Everything up to this revision is on disk.
    pub(super) fn durable(&self) -> u64 {
        self.progress.borrow().durable
    }

    pub(super) fn progress(&self) -> &watch::Receiver<Progress> {
        &self.progress
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        if let Some(writer) = self.0.take()
            && writer.thread().id() != std::thread::current().id()
            && writer.join().is_err()
        {
            tracing::error!("The writer of the data directory panicked");
        }
    }
}

/// The receiving side, in a thread of its own.
struct Writer {
    file: File,
    _lock: Lock,
    queue: Receiver<Step>,
    announce: watch::Sender<Progress>,
    /// Steps of a failed group that are true all the same.
    backlog: Vec<Step>,
}

impl Writer {
    fn run(mut self, state: &Weak<Mutex<State>>) {
        while let Ok(first) = self.queue.recv() {
            let mut group = std::mem::take(&mut self.backlog);
            group.push(first);
            group.extend(self.queue.try_iter().take(GROUP));
            match self.file.commit(&group) {
                Ok(()) => self.tell(&group, state),
                Err(error) => {
                    tracing::error!(%error, "Writes were refused: the data directory takes none");
                    self.set_back(group, state);
                }
            }
        }
    }

    fn tell(&self, group: &[Step], state: &Weak<Mutex<State>>) {
        let durable = self.file.durable();
        let state = state.upgrade();
        // Taken first: whoever sees these writes waits for bells that ring after them.
        let state = state.as_deref().map(locked);
        self.announce.send_modify(|progress| progress.advance(durable));
        for step in group {
            if let Step::Write { change, wake } = step {
                if let Some(state) = &state {
                    state.publish(change);
                }
                wake.notify_waiters();
            }
        }
    }

    /// Takes back in memory what the disk did not take, and what was built on it since.
    fn set_back(&mut self, mut group: Vec<Step>, state: &Weak<Mutex<State>>) {
        let durable = self.file.durable();
        let state = state.upgrade();
        let mut state = state.as_deref().map(locked);
        // Nobody adds a step without the lock.
        group.extend(self.queue.try_iter());
        group.retain(|step| !matches!(step, Step::Write { .. }));
        self.backlog = group;
        if let Some(state) = &mut state {
            state.take_back(durable);
        }
        self.announce.send_modify(|progress| progress.set_back(durable));
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
