//! Provisioner daemons: their sessions, their jobs and what they do when their key is gone.
//!
//! Driven by the clock and not by tasks: what was due since the last look is done, in order, before
//! anybody looks. A daemon that is refused dials again for ever, as the real one does.

mod process;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::model::Key;
use super::store::Store;
use process::{FIRST_DIAL, Next, Process, Session, later};

/// A daemon, as the state shows it.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Daemon {
    /// Counts from 1.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// The name of the key it connected with last; none has been accepted yet.
    pub key: Option<String>,
    /// Whether it has a session.
    pub connected: bool,
    /// Whether it runs a job.
    pub busy: bool,
    /// When the server heard of it last.
    pub last_seen: Option<Timestamp>,
    /// Attempts to connect that were refused since it had a session last.
    pub refused: u64,
}

/// A time in which a daemon that was connected had no working key.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Outage {
    /// Id of the daemon.
    pub id: u64,
    /// Its name.
    pub daemon: String,
    /// The name of the key it had.
    pub key: String,
    /// When its session ended.
    pub since: Timestamp,
    /// When it had one again, or was stopped.
    pub until: Option<Timestamp>,
}

/// What a daemon does all the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// How long a job takes.
    pub job: Duration,
    /// How long it waits for the next one.
    pub pause: Duration,
}

/// What the database knows of a daemon. Goes with its key.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) key: String,
    pub(super) name: String,
    pub(super) created: Timestamp,
    pub(super) seen: Timestamp,
    pub(super) busy: bool,
}

/// All daemons.
#[derive(Clone, Debug)]
pub(super) struct Daemons {
    processes: BTreeMap<u64, Process>,
    pub(super) rows: BTreeMap<u64, Row>,
    pub(super) outages: Vec<Outage>,
    /// Jobs that did not end by themselves.
    pub(super) jobs_cut: u64,
    pub(super) heartbeat: Duration,
    last: u64,
}

impl Daemons {
    pub(super) fn new(heartbeat: Duration) -> Self {
        Self {
            processes: BTreeMap::new(),
            rows: BTreeMap::new(),
            outages: Vec::new(),
            jobs_cut: 0,
            heartbeat,
            last: 0,
        }
    }

    /// Starts a daemon, which dials at once.
    pub(super) fn start(
        &mut self,
        now: Timestamp,
        name: Option<&str>,
        secret_sha256: String,
        work: Option<Work>,
    ) -> u64 {
        self.last += 1;
        let name = name.map_or_else(|| format!("daemon-{}", self.last), str::to_owned);
        let process = Process {
            name,
            secret_sha256,
            session: Session::Dialling { at: now, refused: 0 },
            job: None,
            next_job: work.map(|work| later(now, work.pause)),
            work,
            stopping: None,
        };
        self.processes.insert(self.last, process);
        self.last
    }

    /// Lets a connected daemon run a job. `false`: it has one, or is not connected.
    pub(super) fn run_job(&mut self, now: Timestamp, id: u64, length: Duration) -> bool {
        let Some(process) = self.processes.get_mut(&id) else {
            return false;
        };
        let free = process.job.is_none() && process.stopping.is_none();
        let connected = matches!(process.session, Session::Open { .. });
        if free && connected {
            process.job = Some(later(now, length));
            if let Some(row) = self.rows.get_mut(&id) {
                row.busy = true;
            }
        }
        free && connected
    }

    /// Asks a daemon to stop: at once if it is idle, else when its job ends, at the latest after the
    /// grace. Says when that is.
    pub(super) fn stop(&mut self, now: Timestamp, id: u64, grace: Duration) -> Timestamp {
        let Some(process) = self.processes.get_mut(&id) else {
            return now;
        };
        let Some(job) = process.job else {
            self.leave(now, id);
            return now;
        };
        let end = later(now, grace);
        let end = process.stopping.map_or(end, |known| known.min(end));
        process.stopping = Some(end);
        end.min(job)
    }

    /// The end of a daemon, whatever it does.
    pub(super) fn kill(&mut self, now: Timestamp, id: u64) {
        let cut = self.processes.get(&id).is_some_and(|it| it.job.is_some());
        self.jobs_cut += u64::from(cut);
        self.leave(now, id);
    }

    /// Takes note that a key is gone, with all the database knew of its daemons.
    pub(super) fn key_gone(&mut self, now: Timestamp, key: &Key, ends_sessions: bool) {
        self.rows.retain(|_, row| row.key != key.id);
        if !ends_sessions {
            return;
        }
        let idle: Vec<u64> = self
            .processes
            .iter()
            .filter(|(_, it)| it.job.is_none() && it.has(&key.id))
            .map(|(id, _)| *id)
            .collect();
        idle.into_iter().for_each(|id| self.end_session(now, id));
    }

    /// When something is due next.
    pub(super) fn next(&self) -> Option<Timestamp> {
        let all = self.processes.values();
        all.map(|process| process.next().0).min()
    }

    /// Does what is due at a moment that `next` gave.
    pub(super) fn step(&mut self, at: Timestamp, store: &Store, ends_sessions: bool) {
        let due = self.processes.iter().find_map(|(id, process)| {
            let (when, next) = process.next();
            (when <= at).then_some((*id, next))
        });
        match due {
            None => {}
            Some((id, Next::JobEnds)) => self.job_ends(at, id, store, ends_sessions),
            Some((id, Next::GraceEnds)) => self.kill(at, id),
            Some((id, Next::JobBegins)) => self.job_begins(at, id),
            Some((id, Next::Dials)) => self.dial(at, id, store),
            Some((id, Next::Beats)) => self.beat(at, id, store, ends_sessions),
        }
    }

    /// How all of them are.
    pub(super) fn all(&self) -> Vec<Daemon> {
        let all = self.processes.iter();
        all.map(|(id, it)| it.shown(*id, self.rows.get(id))).collect()
    }

    /// The ids of those that are connected with a key.
    pub(super) fn with_key(&self, key: &str) -> Vec<u64> {
        let with = self.processes.iter().filter(|(_, it)| it.has(key));
        with.map(|(id, _)| *id).collect()
    }

    fn job_begins(&mut self, at: Timestamp, id: u64) {
        let Some(process) = self.processes.get_mut(&id) else {
            return;
        };
        process.next_job = None;
        let Some(work) = process.work else {
            return;
        };
        if !self.run_job(at, id, work.job)
            && let Some(process) = self.processes.get_mut(&id)
        {
            process.next_job = Some(later(at, work.pause.max(FIRST_DIAL)));
        }
    }

    fn job_ends(&mut self, at: Timestamp, id: u64, store: &Store, ends_sessions: bool) {
        let Some(process) = self.processes.get_mut(&id) else {
            return;
        };
        process.job = None;
        process.next_job = process.work.map(|work| later(at, work.pause));
        if let Some(row) = self.rows.get_mut(&id) {
            row.busy = false;
        }
        if process.stopping.is_some() {
            self.leave(at, id);
        } else if ends_sessions && !process.has_key_in(store) {
            self.end_session(at, id);
        }
    }

    fn beat(&mut self, at: Timestamp, id: u64, store: &Store, ends_sessions: bool) {
        let heartbeat = self.heartbeat.max(Duration::from_millis(1));
        let Some(process) = self.processes.get_mut(&id) else {
            return;
        };
        let lost = ends_sessions && process.job.is_none() && !process.has_key_in(store);
        if let Session::Open { beat, .. } = &mut process.session {
            *beat = later(at, heartbeat);
        }
        if let Some(row) = self.rows.get_mut(&id) {
            row.seen = at;
        }
        if lost {
            self.end_session(at, id);
        }
    }

    fn dial(&mut self, at: Timestamp, id: u64, store: &Store) {
        let beat = later(at, self.heartbeat);
        let Some(process) = self.processes.get_mut(&id) else {
            return;
        };
        let Some(key) = store.key_with_digest(&process.secret_sha256) else {
            process.refuse(at);
            return;
        };
        process.session = Session::Open {
            key: key.id.clone(),
            key_name: key.name.clone(),
            beat,
        };
        let row = Row {
            key: key.id.clone(),
            name: process.name.clone(),
            created: at,
            seen: at,
            busy: false,
        };
        self.rows.insert(id, row);
        self.outage_over(at, id);
    }

    fn end_session(&mut self, at: Timestamp, id: u64) {
        let Some(process) = self.processes.get_mut(&id) else {
            return;
        };
        if let Session::Open { key_name, .. } = &process.session {
            self.outages.push(Outage {
                id,
                daemon: process.name.clone(),
                key: key_name.clone(),
                since: at,
                until: None,
            });
        }
        process.session = Session::Dialling {
            at: later(at, FIRST_DIAL),
            refused: 0,
        };
    }

    /// A process ends; what the database knows of it stays until it is stale.
    fn leave(&mut self, at: Timestamp, id: u64) {
        self.processes.remove(&id);
        self.outage_over(at, id);
        if let Some(row) = self.rows.get_mut(&id) {
            row.busy = false;
        }
    }

    fn outage_over(&mut self, at: Timestamp, id: u64) {
        let mut open = self.outages.iter_mut().filter(|it| it.until.is_none());
        if let Some(outage) = open.find(|it| it.id == id) {
            outage.until = Some(at);
        }
    }
}
