//! The stories. Each is a file of the same shape: a title, `play` (sets it up, plays it, tells it), what
//! was `Seen`, and two pure functions of that: `judge` for the verdict and `moments` for the timelines.

mod conflicts;
mod heartbeats;
mod node_death;
mod throttle;
mod tunnel;

use std::fmt;
use std::str::FromStr;

use anyhow::Result;

use crate::stage::DemoStage;
use crate::narration::{Narrator, StoryResult, StoryTitle};

/// A story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoryName {
    /// A storm of conflicts while a tunnel is made.
    Conflicts,
    /// A tunnel that is green when it works, and not otherwise.
    Tunnel,
    /// Half a minute of 429.
    Throttle,
    /// A thousand heartbeats.
    Heartbeats,
    /// A node dies while the budget is almost empty.
    NodeDeath,
}

impl StoryName {
    /// All of them, in the order they are played in.
    pub const ALL: [Self; 5] = [
        Self::Conflicts,
        Self::Tunnel,
        Self::Throttle,
        Self::Heartbeats,
        Self::NodeDeath,
    ];

    pub(crate) fn title(self) -> StoryTitle {
        match self {
            Self::Conflicts => conflicts::TITLE,
            Self::Tunnel => tunnel::TITLE,
            Self::Throttle => throttle::TITLE,
            Self::Heartbeats => heartbeats::TITLE,
            Self::NodeDeath => node_death::TITLE,
        }
    }

    pub(crate) async fn run_story(self, stage: &DemoStage, teller: &Narrator) -> Result<StoryResult> {
        match self {
            Self::Conflicts => conflicts::play(stage, teller).await,
            Self::Tunnel => tunnel::play(stage, teller).await,
            Self::Throttle => throttle::play(stage, teller).await,
            Self::Heartbeats => heartbeats::play(stage, teller).await,
            Self::NodeDeath => node_death::play(stage, teller).await,
        }
    }
}

impl fmt::Display for StoryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title().name)
    }
}

impl FromStr for StoryName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|it| it.title().name == text);
        found.ok_or_else(|| {
            let all = Self::ALL.map(|it| it.to_string()).join(", ");
            format!("there is no story {text:?}: choose from {all}")
        })
    }
}
