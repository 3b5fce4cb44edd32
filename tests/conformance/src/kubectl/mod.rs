//! Stock kubectl against `aplomb box` and against the real server: the same script, the same
//! exit codes, the same output once what must differ is hidden.

pub mod host;
pub mod normal;
pub mod script;
pub mod session;

use anyhow::Result;

use host::Host;
use session::{Outcome, Session};

/// What one step did on both hosts.
#[derive(Debug)]
pub struct Verdict {
    /// The command line.
    pub step: String,
    /// Why it is not as it should be.
    pub failure: Option<String>,
}

/// Runs the script on the box and, if there is one, on the real server.
///
/// # Errors
/// When kubectl cannot be run.
pub async fn run(the_box: &Host, real: Option<&Host>) -> Result<Vec<Verdict>> {
    let (mine, theirs) = match real {
        Some(real) => {
            let (mine, theirs) = futures::try_join!(play(the_box), play(real))?;
            (mine, Some(theirs))
        }
        None => (play(the_box).await?, None),
    };
    let judge = |(at, outcome): (usize, &Outcome)| {
        judge(outcome, theirs.as_ref().and_then(|theirs| theirs.get(at)))
    };
    Ok(mine.iter().enumerate().map(judge).collect())
}

async fn play(host: &Host) -> Result<Vec<Outcome>> {
    let mut session = Session::start(host)?;
    script::play(&mut session).await?;
    Ok(session.into_outcomes())
}

fn judge(mine: &Outcome, theirs: Option<&Outcome>) -> Verdict {
    let failure = if mine.code != mine.expected {
        Some(format!(
            "exit {} instead of {}\n{}",
            mine.code, mine.expected, mine.output
        ))
    } else {
        theirs.and_then(|theirs| differs(mine, theirs))
    };
    Verdict {
        step: mine.step.clone(),
        failure,
    }
}

fn differs(mine: &Outcome, theirs: &Outcome) -> Option<String> {
    let real = format!("exit {}\n{}", theirs.code, theirs.output);
    let my = format!("exit {}\n{}", mine.code, mine.output);
    let (mut real_lines, mut my_lines) = (real.lines(), my.lines());
    loop {
        match (real_lines.next(), my_lines.next()) {
            (None, None) => return None,
            (a, b) if a == b => {}
            (a, b) => {
                let shown = |line: Option<&str>| line.unwrap_or("(end of output)").to_owned();
                return Some(format!("real: {}\n    box:  {}", shown(a), shown(b)));
            }
        }
    }
}
