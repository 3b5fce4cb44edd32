//! A minimal provider: one floating IP, actions that take time, and every kind of failure.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use crate::world::{ActionState, ObservedFloatingIp, ProviderTrouble};

/// How the provider responds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Mood {
    Well,
    /// Every call is refused with this error.
    Troubled(ProviderTrouble),
    /// Every write is refused with this error; reads succeed.
    WritesTroubled(ProviderTrouble),
    /// Every write of a term is refused with this error; all other calls succeed.
    ClaimsTroubled(ProviderTrouble),
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
    pub(super) takes: Option<Duration>,
    /// How many of the next actions end in an error.
    pub(super) failing: u32,
    /// Servers to which every Assign is refused.
    pub(super) refuses: Vec<i64>,
    /// Servers that are locked by others.
    pub(super) locks: Vec<i64>,
    /// Servers for which actions succeed without effect.
    pub(super) hollow: Vec<i64>,
    actions: Vec<Action>,
}

impl Default for Provider {
    fn default() -> Self {
        Self {
            mood: Mood::Well,
            server: None,
            blocked: false,
            term: 0,
            id: 4711,
            ip: Ipv4Addr::new(203, 0, 113, 7).into(),
            takes: Some(Duration::from_millis(1_200)),
            failing: 0,
            refuses: Vec::new(),
            locks: Vec::new(),
            hollow: Vec::new(),
            actions: Vec::new(),
        }
    }
}

impl Provider {
    /// Ends the actions that are due at `now`.
    pub(super) fn settle(&mut self, now: Duration) {
        for action in &mut self.actions {
            let running = action.state == ActionState::Running;
            if !running || action.ends.is_none_or(|ends| ends > now) {
                continue;
            }
            action.state = if action.fails {
                ActionState::Error("action_failed".to_owned())
            } else {
                if !self.hollow.contains(&action.server) {
                    self.server = Some(action.server);
                }
                ActionState::Success
            };
        }
    }

    /// Whether an action is running.
    pub(super) fn busy(&self) -> bool {
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
        self.answers(false)?;
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
        self.answers(true)?;
        if self.busy() || self.locks.contains(&server) {
            return Err(ProviderTrouble::Locked);
        }
        if self.refuses.contains(&server) {
            return Err(ProviderTrouble::Refused("invalid_input".to_owned()));
        }
        if self.server == Some(server) {
            return Err(ProviderTrouble::Refused("floating_ip_assigned".to_owned()));
        }
        self.actions.push(Action {
            server,
            ends: self.takes.map(|takes| now + takes),
            fails: self.failing > 0,
            state: ActionState::Running,
        });
        self.failing = self.failing.saturating_sub(1);
        self.settle(now);
        if self.mood == Mood::LosesReplies {
            return Err(lost());
        }
        Ok(i64::try_from(self.actions.len() - 1).expect("few actions"))
    }

    pub(super) fn action(&self, id: i64) -> Result<ActionState, ProviderTrouble> {
        self.answers(false)?;
        let index = usize::try_from(id).expect("our own id");
        Ok(self.actions[index].state.clone())
    }

    pub(super) fn claim(&mut self, term: u64) -> Result<(), ProviderTrouble> {
        self.answers(true)?;
        if let Mood::ClaimsTroubled(trouble) = &self.mood {
            return Err(trouble.clone());
        }
        self.term = term;
        if self.mood == Mood::LosesReplies {
            return Err(lost());
        }
        Ok(())
    }

    fn answers(&self, write: bool) -> Result<(), ProviderTrouble> {
        match &self.mood {
            Mood::Troubled(trouble) => Err(trouble.clone()),
            Mood::WritesTroubled(trouble) if write => Err(trouble.clone()),
            _ => Ok(()),
        }
    }
}

fn lost() -> ProviderTrouble {
    ProviderTrouble::Unreachable("connection reset".to_owned())
}
