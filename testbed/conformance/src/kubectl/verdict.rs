//! Whether a command did what it should, and both outputs where it did not.

use super::script::Expect;
use super::session::Outcome;

/// Lines shown of a long output around the first difference.
const CONTEXT: usize = 12;

/// What one command came to.
#[derive(Debug)]
pub struct Verdict {
    /// The script's name and line.
    pub place: String,
    /// The command.
    pub command: String,
    /// Why it is not as it should be.
    pub failure: Option<String>,
}

impl Verdict {
    /// Judges what the box did, beside what the real server did where there is one.
    #[must_use]
    pub fn new(script: &str, mine: &Outcome, theirs: Option<&Outcome>) -> Self {
        Self {
            place: format!("{script}.script:{}", mine.line),
            command: mine.command.clone(),
            failure: failure(mine, theirs),
        }
    }
}

fn failure(mine: &Outcome, theirs: Option<&Outcome>) -> Option<String> {
    if let Some(theirs) = theirs {
        if !as_expected(mine.expected, theirs) {
            return Some(format!("the script is wrong: {}", whole(theirs)));
        }
        return differs(&whole(mine), &whole(theirs));
    }
    (!as_expected(mine.expected, mine)).then(|| whole(mine))
}

fn as_expected(expected: Expect, outcome: &Outcome) -> bool {
    (outcome.code == 0) == (expected != Expect::Failure)
}

fn whole(outcome: &Outcome) -> String {
    format!("exit {}\n{}", outcome.code, outcome.output)
}

fn differs(mine: &str, theirs: &str) -> Option<String> {
    let (mine, theirs): (Vec<_>, Vec<_>) = (mine.lines().collect(), theirs.lines().collect());
    let same = mine.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
    if same == mine.len() && same == theirs.len() {
        return None;
    }
    let mut text = String::new();
    for (name, lines) in [("real", &theirs), ("box", &mine)] {
        text += &format!("{name}:\n");
        let from = same.saturating_sub(CONTEXT / 3);
        for (at, line) in lines.iter().enumerate().skip(from).take(CONTEXT) {
            text += &format!("  {} {line}\n", if at < same { ' ' } else { '>' });
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_shows_both_outputs() {
        assert_eq!(differs("a\nb", "a\nb"), None);
        let shown = differs("a\nb", "a\nc").expect("they differ");
        assert!(shown.contains("> c") && shown.contains("> b"), "{shown}");
        assert!(differs("a", "a\nmore").is_some());
    }
}
