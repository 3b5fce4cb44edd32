//! A trace as text: the tree, the conditions, the stages with their pushback, and the timeline.

use jiff::Timestamp;

use super::{ConflictWinner, ObjectTrace, TraceNode, TraceStage};
use crate::table::{age_at, align_columns};

impl ObjectTrace {
    /// All sections.
    #[must_use]
    pub fn to_text(&self) -> String {
        let sections = self.sections();
        let texts: Vec<String> = sections.iter().map(|lines| align_columns(lines)).collect();
        texts.join("\n")
    }

    /// The tables, titles first.
    #[must_use]
    pub fn sections(&self) -> Vec<Vec<Vec<String>>> {
        let all = [
            self.tree_lines(),
            self.condition_lines(),
            self.stage_lines(),
            self.timeline_lines(),
        ];
        all.into_iter().filter(|lines| lines.len() > 1).collect()
    }

    fn tree_lines(&self) -> Vec<Vec<String>> {
        let mut lines = vec![title_cells(["NAME", "STATUS", "REASON", "SINCE", "AGE", "WHAT"])];
        push_branch(&self.tree, "", "", self.at, &mut lines);
        lines
    }

    /// The conditions of the object itself, without those of its relatives.
    fn condition_lines(&self) -> Vec<Vec<String>> {
        let mut lines = vec![title_cells(["CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE"])];
        for condition in &self.tree.conditions {
            lines.push(vec![
                condition.type_.clone(),
                condition.status.clone(),
                condition.reason.clone(),
                format_ago(condition.since, self.at),
                condition.message.clone(),
            ]);
        }
        lines
    }

    /// The stages, and the pushback before each.
    fn stage_lines(&self) -> Vec<Vec<String>> {
        let mut lines = vec![title_cells([
            "STAGE",
            "AT",
            "GAP",
            "AFTER",
            "CONFLICTS",
            "WON BY",
            "OTHER PUSHBACK",
        ])];
        lines.extend(self.stages.iter().map(stage_line));
        lines
    }

    /// Who did what when.
    fn timeline_lines(&self) -> Vec<Vec<String>> {
        let mut lines = vec![title_cells(["TIME", "TIMES", "WHO", "WHAT", "FROM"])];
        for moment in &self.timeline {
            let until = moment
                .until
                .map(|until| format!(" (last {})", format_clock(until, false)));
            lines.push(vec![
                format_clock(moment.at, moment.from.is_coarse()),
                moment.times.to_string(),
                moment.who.clone(),
                format!("{}{}", moment.what, until.unwrap_or_default()),
                moment.from.as_str().to_owned(),
            ]);
        }
        lines
    }
}

fn title_cells<const N: usize>(titles: [&str; N]) -> Vec<String> {
    titles.map(str::to_owned).to_vec()
}

fn push_branch(node: &TraceNode, own: &str, below: &str, at: Timestamp, lines: &mut Vec<Vec<String>>) {
    lines.push(node_line(node, own, at));
    for (n, child) in node.children.iter().enumerate() {
        let (tip, stem) = match n + 1 == node.children.len() {
            true => ("└─ ", "   "),
            false => ("├─ ", "│  "),
        };
        push_branch(child, &format!("{below}{tip}"), &format!("{below}{stem}"), at, lines);
    }
}

fn node_line(node: &TraceNode, indent: &str, at: Timestamp) -> Vec<String> {
    let name = format!("{indent}{}/{}", node.kind, node.name);
    let what = match (&node.note, node.role.as_str()) {
        (Some(note), "") => note.clone(),
        (Some(note), role) => format!("{role}, {note}"),
        (None, role) => role.to_owned(),
    };
    let (status, reason, since) = match (node.summary_condition(), node.exists) {
        (Some(told), _) => {
            let stale = if told.current { "" } else { " (older spec)" };
            let status = format!("{}={}{stale}", told.type_, told.status);
            (status, told.reason.clone(), format_ago(told.since, at))
        }
        (None, Some(true)) => ("-".to_owned(), "-".to_owned(), "-".to_owned()),
        (None, Some(false)) => ("does not exist".to_owned(), "-".to_owned(), "-".to_owned()),
        (None, None) => ("not readable".to_owned(), "-".to_owned(), "-".to_owned()),
    };
    vec![name, status, reason, since, format_ago(node.created, at), what]
}

fn stage_line(stage: &TraceStage) -> Vec<String> {
    let millis = |ms: Option<i64>| ms.map_or("-".to_owned(), |ms| format!("{ms} ms"));
    let pushback = stage.pushback.iter();
    let pushback: Vec<String> = pushback.map(|(class, times)| format!("{class} x{times}")).collect();
    vec![
        stage.name.clone(),
        stage.at.map_or("-".to_owned(), |at| format_clock(at, false)),
        millis(stage.gap_ms),
        millis(stage.after_ms),
        stage.conflicts.to_string(),
        or_dash(stage.won_by.iter().map(winner_text).collect::<Vec<_>>().join(", ")),
        or_dash(pushback.join(", ")),
    ]
}

fn winner_text(winner: &ConflictWinner) -> String {
    let manager = winner.manager.as_deref().unwrap_or("<unknown>");
    format!("{manager} x{} on {}", winner.times, winner.object)
}

fn or_dash(text: String) -> String {
    match text.is_empty() {
        true => "-".to_owned(),
        false => text,
    }
}

fn format_ago(then: Option<Timestamp>, at: Timestamp) -> String {
    then.map_or("-".to_owned(), |then| age_at(then, at))
}

/// To the millisecond, or to the second if no more is known.
fn format_clock(at: Timestamp, coarse: bool) -> String {
    match coarse {
        true => at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        false => at.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string(),
    }
}
