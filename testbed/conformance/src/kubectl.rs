//! Stock kubectl and helm against `aplomb box` and against the real server: the same scripts, the
//! same exit codes, the same output once what must differ is hidden.

pub mod host;
pub mod normal;
mod owners;
pub mod recording;
pub mod script;
pub mod session;
mod verdict;

use anyhow::Result;
use futures::StreamExt;
use futures::stream::{self, BoxStream};

use host::Host;
use recording::Recording;
use script::Script;
use session::{Outcome, play};
pub use verdict::Verdict;

/// How many scripts are played at once; kubectl waits as much as it works.
const AT_ONCE: usize = 3;

/// What the box is compared with.
#[derive(Debug)]
pub enum Peer {
    /// Nothing: only exit codes count.
    Nobody,
    /// A real control plane.
    Real(Box<Host>),
    /// What a real control plane did before.
    Recorded(Recording),
}

/// A script that has been played: what the peer did, and what the box's doing came to.
#[derive(Debug)]
pub struct Played {
    /// The script's name.
    pub name: String,
    /// What the peer did.
    pub theirs: Option<Vec<Outcome>>,
    /// One for every command.
    pub verdicts: Vec<Verdict>,
}

/// Plays scripts on both, those that look at the whole cluster one by one and before the others.
pub fn run<'a>(the_box: &'a Host, peer: &'a Peer, scripts: &'a [Script]) -> BoxStream<'a, Result<Played>> {
    let (alone, others): (Vec<_>, Vec<_>) = scripts.iter().partition(|script| script.alone);
    let alone = stream::iter(alone).then(move |script| compare(the_box, peer, script));
    let others = stream::iter(others)
        .map(move |script| compare(the_box, peer, script))
        .buffer_unordered(AT_ONCE);
    alone.chain(others).boxed()
}

async fn compare(the_box: &Host, peer: &Peer, script: &Script) -> Result<Played> {
    let theirs = async {
        match peer {
            Peer::Nobody => Ok(None),
            Peer::Real(real) => play(real, script).await.map(Some),
            Peer::Recorded(recording) => recording.of(script).map(Some),
        }
    };
    let (mine, theirs) = futures::try_join!(play(the_box, script), theirs)?;
    let verdicts = mine.iter().enumerate().map(|(at, outcome)| {
        let other = theirs.as_ref().and_then(|theirs| theirs.get(at));
        Verdict::new(&script.name, outcome, other)
    });
    Ok(Played {
        name: script.name.clone(),
        verdicts: verdicts.collect(),
        theirs,
    })
}
