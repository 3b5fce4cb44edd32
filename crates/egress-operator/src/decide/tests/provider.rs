//! A minimal provider: one floating IP, actions that take time, and every kind of failure.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use crate::egress::{ActionState, ObservedFloatingIp, ProviderTrouble};

/// How the provider responds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Mood {
    Healthy,
    /// Every call is refused with this error.
    Failing(ProviderTrouble),
    /// Every write is refused with this error; reads succeed.
    WritesFail(ProviderTrouble),
    /// Every write of a term is refused with this error; all other calls succeed.
    TermWritesFail(ProviderTrouble),
    /// Writes take effect, but their responses are lost.
    LosesReplies,
}

/// An action, and its effect when it ends.
#[derive(Clone, Debug)]
struct Action {
    server: i64,
    ends: Option<Duration>,
    fails: bool,
    state: ActionState,
}

#[derive(Clone, Debug)]
pub(super) struct Provider {
    pub(super) mood: Mood,
    pub(super) server: Option<i64>,
    pub(super) blocked: bool,
    pub(super) term: u64,
    pub(super) id: i64,
    pub(super) ip: IpAddr,
    /// How long an action takes; without end if `None`.
    pub(super) assign_time: Option<Duration>,
    /// How many of the next actions end in an error.
    pub(super) failing: u32,
    /// Servers to which every Assign is refused.
    pub(super) refusing_servers: Vec<i64>,
    /// Servers that are locked by others.
    pub(super) locks: Vec<i64>,
    /// Servers for which actions succeed without effect.
    pub(super) ignoring_servers: Vec<i64>,
    actions: Vec<Action>,
}

impl Default for Provider {
    fn default() -> Self {
        Self {
            mood: Mood::Healthy,
            server: None,
            blocked: false,
            term: 0,
            id: 4711,
            ip: Ipv4Addr::new(203, 0, 113, 7).into(),
            assign_time: Some(Duration::from_millis(1_200)),
            failing: 0,
            refusing_servers: Vec::new(),
            locks: Vec::new(),
            ignoring_servers: Vec::new(),
            actions: Vec::new(),
        }
    }
}

impl Provider {
    /// Ends the actions that are due at `now`.
    pub(super) fn advance(&mut self, now: Duration) {
        for action in &mut self.actions {
            let running = action.state == ActionState::Running;
            if !running || action.ends.is_none_or(|ends| ends > now) {
                continue;
            }
            action.state = if action.fails {
                ActionState::Error("action_failed".to_owned())
            } else {
                if !self.ignoring_servers.contains(&action.server) {
                    self.server = Some(action.server);
                }
                ActionState::Success
            };
        }
    }

    /// Whether an action is running.
    pub(super) fn is_busy(&self) -> bool {
        let mut actions = self.actions.iter();
        actions.any(|action| action.state == ActionState::Running)
    }

    /// Ends actions that would never end, without effect.
    pub(super) fn abort(&mut self) {
        for action in &mut self.actions {
            action.fails = true;
            action.ends = Some(Duration::ZERO);
        }
    }

    pub(super) fn read(&self, now: Duration) -> Result<ObservedFloatingIp, ProviderTrouble> {
        self.check_mood(false)?;
        Ok(ObservedFloatingIp {
            id: self.id,
            ip: self.ip,
            server: self.server,
            blocked: self.blocked,
            term: self.term,
            at: now,
        })
    }

    pub(super) fn assign(&mut self, server: i64, now: Duration) -> Result<i64, ProviderTrouble> {
        self.check_mood(true)?;
        if self.is_busy() || self.locks.contains(&server) {
            return Err(ProviderTrouble::Locked);
        }
        if self.refusing_servers.contains(&server) {
            return Err(ProviderTrouble::Refused("invalid_input".to_owned()));
        }
        if self.server == Some(server) {
            return Err(ProviderTrouble::Refused("floating_ip_assigned".to_owned()));
        }
        self.actions.push(Action {
            server,
            ends: self.assign_time.map(|takes| now + takes),
            fails: self.failing > 0,
            state: ActionState::Running,
        });
        self.failing = self.failing.saturating_sub(1);
        self.advance(now);
        if self.mood == Mood::LosesReplies {
            return Err(lost_reply());
        }
        Ok(i64::try_from(self.actions.len() - 1).expect("few actions"))
    }

    pub(super) fn action(&self, id: i64) -> Result<ActionState, ProviderTrouble> {
        self.check_mood(false)?;
        let index = usize::try_from(id).expect("our own id");
        Ok(self.actions[index].state.clone())
    }

    pub(super) fn claim(&mut self, term: u64) -> Result<(), ProviderTrouble> {
        self.check_mood(true)?;
        if let Mood::TermWritesFail(trouble) = &self.mood {
            return Err(trouble.clone());
        }
        self.term = term;
        if self.mood == Mood::LosesReplies {
            return Err(lost_reply());
        }
        Ok(())
    }

    fn check_mood(&self, write: bool) -> Result<(), ProviderTrouble> {
        match &self.mood {
            Mood::Failing(trouble) => Err(trouble.clone()),
            Mood::WritesFail(trouble) if write => Err(trouble.clone()),
            _ => Ok(()),
        }
    }
}

fn lost_reply() -> ProviderTrouble {
    ProviderTrouble::Unreachable("connection reset".to_owned())
}
