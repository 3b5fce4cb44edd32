//! The tables of a status: operators, watches, budgets, queues, objects and findings.

use crate::status::{Finding, LimiterRow, OperatorRow, Overview, QueueRow, WatchRow};
use crate::table::{age_at, human_duration};

/// Lines of a table, titles first.
pub type TextSection = Vec<Vec<String>>;

/// The tables that are not empty.
#[must_use]
pub fn sections(status: &Overview) -> Vec<TextSection> {
    let all = [
        format_section(OPERATORS, status.operators.iter().map(operator_row)),
        format_section(WATCHES, status.watches.iter().map(watch_row)),
        format_section(BUDGETS, status.budgets.iter().flat_map(budget_rows)),
        format_section(QUEUES, status.queues.iter().map(queue_row)),
        format_section(OBJECTS, object_rows(status).into_iter()),
        format_section(FINDINGS, status.findings.iter().map(|it| finding_row(it, status))),
    ];
    all.into_iter().filter(|lines| lines.len() > 1).collect()
}

const OPERATORS: &[&str] = &[
    "OPERATOR",
    "STATE",
    "IDENTITY",
    "HOLDER",
    "HANDOVERS",
    "UPTIME",
    "HEALTH",
];
const WATCHES: &[&str] = &["WATCH", "OPERATOR", "SYNCED", "OBJECTS", "LAST-EVENT", "TROUBLE"];
const BUDGETS: &[&str] = &[
    "BUDGET",
    "LANE",
    "AVAILABLE",
    "RESERVE",
    "WAITING",
    "UNDER-WAY",
    "RATE",
    "CLOSED",
];
const QUEUES: &[&str] = &["QUEUE", "OPEN", "LANES", "WAITING", "RUNNING", "QUARANTINED"];
const OBJECTS: &[&str] = &["KIND", "OBJECTS", "READY", "CONFLICTS", "WRITES", "SUPPRESSED"];
const FINDINGS: &[&str] = &["NOT-READY", "SEVERITY", "REASON", "SINCE", "MESSAGE"];

fn format_section(titles: &[&str], rows: impl Iterator<Item = Vec<String>>) -> TextSection {
    let titles = titles.iter().map(|&title| title.to_owned()).collect();
    std::iter::once(titles).chain(rows).collect()
}

fn operator_row(it: &OperatorRow) -> Vec<String> {
    // Only the operator itself reports an uptime.
    let asked = it.uptime > 0.0;
    let state = match (it.leading, asked) {
        (true, _) => "leading",
        (false, true) => "standby",
        (false, false) => "gone",
    };
    let health = match (asked, it.trouble.first()) {
        (_, Some(trouble)) => trouble.clone(),
        (true, None) => "ok".to_owned(),
        (false, None) => "-".to_owned(),
    };
    vec![
        it.name.clone(),
        state.to_owned(),
        text_or_dash(it.identity.as_ref()),
        text_or_dash(it.holder.as_ref()),
        it.transitions.to_string(),
        if asked {
            format_seconds(it.uptime)
        } else {
            "-".to_owned()
        },
        health,
    ]
}

fn watch_row(it: &WatchRow) -> Vec<String> {
    let heard = match (it.age, it.reconnecting) {
        (_, Some(down)) => format!("down for {}", format_seconds(down)),
        (Some(age), None) => format!("{} ago", format_seconds(age)),
        (None, None) => "never".to_owned(),
    };
    vec![
        it.name.clone(),
        it.operator.clone(),
        it.synced.to_string(),
        it.objects.to_string(),
        heard,
        text_or_dash(it.trouble.as_ref()),
    ]
}

fn budget_rows(it: &LimiterRow) -> Vec<Vec<String>> {
    let closed = it
        .closed_for_seconds
        .map(|left| format!("for {}", format_seconds(left)));
    let capacity = it.capacity.filter(|it| *it > 0.0);
    let lanes = it.lanes.iter().map(|lane| {
        let available = match capacity {
            Some(capacity) => format!("{:.0}/{capacity:.0}", lane.tokens),
            None => format!("{:.0}", lane.tokens),
        };
        vec![
            it.target.clone(),
            lane.name.clone(),
            available,
            format!("{:.0}", lane.reserve),
            lane.waiting.to_string(),
            lane.in_flight.to_string(),
            format!("{:.1}/s", it.rate),
            text_or_dash(closed.as_ref()),
        ]
    });
    lanes.collect()
}

fn queue_row(it: &QueueRow) -> Vec<String> {
    let lane = |lane: &crate::status::LaneRow| match lane.oldest {
        Some(oldest) => format!("{} {} ({})", lane.name, lane.depth, format_seconds(oldest)),
        None => format!("{} {}", lane.name, lane.depth),
    };
    let lanes: Vec<String> = it.lanes.iter().map(lane).collect();
    vec![
        it.controller.clone(),
        it.open.to_string(),
        lanes.join(", "),
        it.waiting.to_string(),
        format!("{}/{}", it.running.len(), it.concurrency),
        it.quarantined.len().to_string(),
    ]
}

/// Each kind of ours: how many objects are ready, and how many writes were made.
fn object_rows(status: &Overview) -> Vec<Vec<String>> {
    let row = |table: &crate::table::ObjectTable| {
        let proof = ["Ready", "Online"];
        let mut proof = proof
            .iter()
            .filter(|name| table.columns.iter().any(|it| it.name == **name));
        let ready = proof.next().map(|name| {
            let rows = table.rows.iter();
            rows.filter(|row| table.cell(row, name) == Some("True")).count()
        });
        let tally = status.kinds.iter().find(|it| it.kind == table.kind);
        let count = |of: fn(&crate::status::KindRow) -> u64| tally.map_or("-".to_owned(), |it| of(it).to_string());
        vec![
            table.kind.clone(),
            table.rows.len().to_string(),
            ready.map_or("-".to_owned(), |it| format!("{it}/{}", table.rows.len())),
            count(|it| it.conflicts),
            count(|it| it.writes),
            count(|it| it.writes_suppressed),
        ]
    };
    let some = status.tables.iter().filter(|table| !table.rows.is_empty());
    some.map(row).collect()
}

fn finding_row(it: &Finding, status: &Overview) -> Vec<String> {
    let name = match it.name.name.is_empty() {
        true => it.kind.clone(),
        false => format!("{}/{}", it.kind, it.name),
    };
    vec![
        name,
        it.severity.as_str().to_owned(),
        it.reason.clone(),
        it.since.map_or("-".to_owned(), |then| age_at(then, status.at)),
        it.message.clone(),
    ]
}

fn text_or_dash(value: Option<&String>) -> String {
    value.map_or("-".to_owned(), Clone::clone)
}

#[allow(clippy::cast_possible_truncation)] // whole seconds are shown
fn format_seconds(seconds: f64) -> String {
    human_duration(seconds as i64)
}
