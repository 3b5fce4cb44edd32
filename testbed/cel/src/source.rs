//! Where in an expression something is wrong, printed as the server's compiler prints it.

/// A mistake at a character offset.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Issue {
    pub(super) at: usize,
    pub(super) message: String,
}

impl Issue {
    pub(super) fn new(at: usize, message: impl Into<String>) -> Self {
        Self {
            at,
            message: message.into(),
        }
    }
}

/// All issues in order of place, each with the line it is on and a pointer below.
pub(super) fn report(source: &str, mut issues: Vec<Issue>) -> String {
    issues.sort_by_key(|issue| issue.at);
    issues.dedup();
    let each: Vec<String> = issues.iter().map(|issue| report_one(source, issue)).collect();
    each.join("\n")
}

fn report_one(source: &str, issue: &Issue) -> String {
    let chars: Vec<char> = source.chars().collect();
    let before = &chars[..issue.at.min(chars.len())];
    let line = before.iter().filter(|c| **c == '\n').count() + 1;
    let start = before.iter().rposition(|c| *c == '\n').map_or(0, |at| at + 1);
    let column = before.len() - start;
    let text: String = chars[start..].iter().take_while(|c| **c != '\n').collect();
    let dots = ".".repeat(column);
    format!(
        "ERROR: <input>:{line}:{}: {}\n | {text}\n | {dots}^",
        column + 1,
        issue.message
    )
}
