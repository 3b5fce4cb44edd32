//! The stories. Each file has the same shape: a title, `play` (setup, run, output), `Seen` (what was
//! observed), and two pure functions of it: `judge` for the verdict and `moments` for the timelines.

mod conflicts;
mod heartbeats;
mod node_death;
mod throttle;
mod tunnel;

use std::fmt;
use std::str::FromStr;

use anyhow::Result;

use crate::narration::{Narrator, StoryResult, StoryTitle};
use crate::stage::DemoStage;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoryName {
    /// Conflicts while a tunnel is created.
    Conflicts,
    /// A tunnel that is green only while it works.
    Tunnel,
    /// Half a minute of 429 responses.
    Throttle,
    /// A thousand heartbeats.
    Heartbeats,
    /// A node dies while the rate limit is almost exhausted.
    NodeDeath,
}

impl StoryName {
    /// All stories, in the order in which they are played.
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
            format!("unknown story {text:?}; choose from {all}")
        })
    }
}
