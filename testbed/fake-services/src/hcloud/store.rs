//! What exists, who holds what, and which actions run: pure, and told the time.
//!
//! A holder changes when its action ends and not before. Randomness stays outside: how an action
//! goes is decided by the caller, in a `Course`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::error::ApiError;
use super::model::{ActionError, ActionRecord, Effect, FloatingIp, Resource, Server, Status};

/// How an action will go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Course {
    /// How long it runs; `None` is for ever. Zero: it is over in the answer that announces it.
    pub duration: Option<Duration>,
    /// How it ends if not in success.
    pub fails: Option<ActionError>,
    /// Whether it locks what it is about.
    pub locks: bool,
    /// Whether it changes anything; a failed one usually does not.
    pub takes_effect: bool,
}

impl Course {
    /// Success after a while.
    #[must_use]
    pub fn success(duration: Duration) -> Self {
        Self {
            duration: Some(duration),
            fails: None,
            locks: true,
            takes_effect: true,
        }
    }
}

/// The resources of all projects. Ids are never used twice.
#[derive(Clone, Debug, Default)]
pub struct Store {
    pub(super) servers: BTreeMap<u64, Server>,
    pub(super) floating_ips: BTreeMap<u64, FloatingIp>,
    pub(super) actions: BTreeMap<u64, ActionRecord>,
    pub(super) running: BTreeSet<u64>,
    pub(super) last_id: u64,
}

impl Store {
    /// When the next running action ends.
    #[must_use]
    pub fn next_end(&self) -> Option<Timestamp> {
        let running = self.running.iter().filter_map(|id| self.actions.get(id));
        running.filter_map(|action| action.ends).min()
    }

    /// Ends every action that is due, in the order of their ends.
    pub fn settle(&mut self, now: Timestamp) {
        while let Some((ends, id)) = self.next_due(now) {
            self.end(id, ends);
        }
    }

    /// Whether a running action, or a person, has locked a resource.
    #[must_use]
    pub fn locked(&self, kind: &str, id: u64) -> bool {
        let about =
            |action: &&ActionRecord| action.locks && action.resources.iter().any(|r| r.id == id && r.kind == kind);
        let running = self.running.iter().filter_map(|id| self.actions.get(id));
        let by_hand = kind == "server" && self.servers.get(&id).is_some_and(|s| s.locked);
        by_hand || running.filter(about).count() > 0
    }

    /// Begins to move a floating IP to a server.
    ///
    /// # Errors
    /// 404 for either, 423 while either is locked.
    pub fn assign(
        &mut self,
        now: Timestamp,
        floating_ip: u64,
        server: u64,
        course: Course,
    ) -> Result<ActionRecord, ApiError> {
        let found = self.floating_ip(floating_ip)?;
        let project = found.project.clone();
        if !self.servers.contains_key(&server) {
            return Err(ApiError::not_found("server", server));
        }
        let resources = vec![
            Resource::new("server", server),
            Resource::new("floating_ip", floating_ip),
        ];
        let effect = Effect::Hold {
            floating_ip,
            server: Some(server),
        };
        self.begin(now, "assign_floating_ip", resources, effect, course, project)
    }

    /// Begins to take a floating IP off its server.
    ///
    /// # Errors
    /// 404, 422 when nothing holds it, 423 while it or its server is locked.
    pub fn unassign(&mut self, now: Timestamp, floating_ip: u64, course: Course) -> Result<ActionRecord, ApiError> {
        let found = self.floating_ip(floating_ip)?;
        let project = found.project.clone();
        let Some(server) = found.server else {
            let text = "floating IP is not assigned";
            return Err(ApiError::new("invalid_input", text));
        };
        let resources = vec![
            Resource::new("server", server),
            Resource::new("floating_ip", floating_ip),
        ];
        let effect = Effect::Hold {
            floating_ip,
            server: None,
        };
        self.begin(now, "unassign_floating_ip", resources, effect, course, project)
    }

    /// Begins to attach or detach a volume, which locks the server. Volumes themselves are not kept.
    ///
    /// # Errors
    /// 404, or 423 while the server is locked.
    pub fn attach_volume(
        &mut self,
        now: Timestamp,
        command: &str,
        volume: u64,
        server: u64,
        course: Course,
    ) -> Result<ActionRecord, ApiError> {
        let found = self.servers.get(&server);
        let found = found.ok_or_else(|| ApiError::not_found("server", server))?;
        let project = found.project.clone();
        let resources = vec![Resource::new("server", server), Resource::new("volume", volume)];
        self.begin(now, command, resources, None, course, project)
    }

    /// Begins to delete a server; what it holds is free when that ends.
    ///
    /// # Errors
    /// 404, or 423 while it is locked.
    pub fn delete_server(&mut self, now: Timestamp, server: u64, course: Course) -> Result<ActionRecord, ApiError> {
        let found = self.servers.get(&server);
        let found = found.ok_or_else(|| ApiError::not_found("server", server))?;
        let project = found.project.clone();
        let resources = vec![Resource::new("server", server)];
        let effect = Effect::DeleteServer(server);
        self.begin(now, "delete_server", resources, effect, course, project)
    }

    /// Deletes a floating IP.
    ///
    /// # Errors
    /// 404, 423 `protected` or `locked`, 422 while it is assigned.
    pub fn delete_floating_ip(&mut self, id: u64) -> Result<(), ApiError> {
        let found = self.floating_ip(id)?;
        if found.protection.delete {
            return Err(ApiError::new("protected", "floating IP deletion is protected"));
        }
        if self.locked("floating_ip", id) {
            return Err(locked("floating_ip", id));
        }
        if self.floating_ip(id)?.server.is_some() {
            let text = "floating IP must be unassigned before it can be deleted";
            return Err(ApiError::new("must_be_unassigned", text));
        }
        self.floating_ips.remove(&id);
        Ok(())
    }

    /// A floating IP by id.
    ///
    /// # Errors
    /// 404.
    pub fn floating_ip(&self, id: u64) -> Result<&FloatingIp, ApiError> {
        let found = self.floating_ips.get(&id);
        found.ok_or_else(|| ApiError::not_found("floating_ip", id))
    }

    fn begin(
        &mut self,
        now: Timestamp,
        command: &str,
        resources: Vec<Resource>,
        effect: impl Into<Option<Effect>>,
        course: Course,
        project: Option<String>,
    ) -> Result<ActionRecord, ApiError> {
        for resource in &resources {
            if self.locked(&resource.kind, resource.id) {
                return Err(locked(&resource.kind, resource.id));
            }
        }
        let id = self.fresh_id();
        let action = ActionRecord {
            id,
            command: command.to_owned(),
            status: Status::Running,
            started: Some(now),
            finished: None,
            resources,
            error: None,
            ends: course.duration.map(|duration| after(now, duration)),
            fails: course.fails,
            locks: course.locks,
            effect: effect.into().filter(|_| course.takes_effect),
            project,
        };
        self.actions.insert(id, action);
        self.running.insert(id);
        self.settle(now);
        Ok(self.actions[&id].clone())
    }

    pub(super) fn fresh_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn next_due(&self, now: Timestamp) -> Option<(Timestamp, u64)> {
        let running = self.running.iter().filter_map(|id| self.actions.get(id));
        let due = running.filter_map(|action| Some((action.ends?, action.id)));
        due.filter(|(ends, _)| *ends <= now).min()
    }

    fn end(&mut self, id: u64, at: Timestamp) {
        self.running.remove(&id);
        let Some(action) = self.actions.get_mut(&id) else {
            return;
        };
        action.finished = Some(at);
        action.error = action.fails.take();
        action.status = match action.error {
            Some(_) => Status::Error,
            None => Status::Success,
        };
        match action.effect.take() {
            Some(Effect::Hold { floating_ip, server }) => self.hold(floating_ip, server),
            Some(Effect::DeleteServer(server)) => self.remove_server(server),
            None => {}
        }
    }

    /// A server that has gone meanwhile holds nothing.
    fn hold(&mut self, floating_ip: u64, server: Option<u64>) {
        let server = server.filter(|id| self.servers.contains_key(id));
        if let Some(floating_ip) = self.floating_ips.get_mut(&floating_ip) {
            floating_ip.server = server;
        }
    }

    fn remove_server(&mut self, server: u64) {
        self.servers.remove(&server);
        self.detach_lost();
    }

    /// Frees the floating IPs whose server is no more.
    pub(super) fn detach_lost(&mut self) {
        for floating_ip in self.floating_ips.values_mut() {
            floating_ip.server = floating_ip.server.filter(|server| self.servers.contains_key(server));
        }
    }
}

fn locked(kind: &str, id: u64) -> ApiError {
    ApiError::new("locked", format!("{kind} {id} is locked"))
}

/// A moment later, or the last one there is.
pub(super) fn after(now: Timestamp, duration: Duration) -> Timestamp {
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    now.checked_add(duration).unwrap_or(Timestamp::MAX)
}
