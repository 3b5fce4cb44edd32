//! The lines of one object. When it is full, older equal lines are merged into one with a count, so that
//! the first lines of a long incident are kept.

use std::collections::VecDeque;

use crate::journal::{JournalEntry, JournalLine};

/// The lines of one object, oldest first.
#[derive(Debug, Default)]
pub(super) struct ObjectJournal {
    lines: VecDeque<JournalLine>,
}

impl ObjectJournal {
    /// Adds a line; keeps at most `room` lines.
    pub(super) fn add(&mut self, line: JournalLine, room: usize) {
        self.lines.push_back(line);
        while self.lines.len() > room {
            if !self.merge_repeats() {
                self.evict_line();
            }
        }
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = &JournalLine> {
        self.lines.iter()
    }

    /// Drops the oldest line of the older half that only records a read, or else the oldest, so that routine runs
    /// do not displace an incident.
    fn evict_line(&mut self) {
        let half = self.lines.len() / 2;
        let routine = self.lines.iter().take(half);
        let routine = routine.map(|line| &line.entry).position(JournalEntry::is_routine);
        self.lines.remove(routine.unwrap_or(0));
    }

    /// Merges equal lines of the older half, but never across the change of a condition, so that the count of
    /// errors in each state is kept. Returns whether that made room.
    fn merge_repeats(&mut self) -> bool {
        let before = self.lines.len();
        let newer = self.lines.split_off(before / 2);
        let mut folded: Vec<JournalLine> = Vec::new();
        let mut stretch = 0;
        for line in self.lines.drain(..) {
            let known = folded[stretch..].iter_mut();
            let mut same = known.filter(|it| it.entry.is_same_event(&line.entry));
            match same.next() {
                Some(earlier) => earlier.merge_repeat(line),
                None => {
                    let ends = matches!(line.entry, JournalEntry::Condition { .. });
                    folded.push(line);
                    if ends {
                        stretch = folded.len();
                    }
                }
            }
        }
        self.lines.extend(folded);
        self.lines.extend(newer);
        self.lines.len() < before
    }
}

impl JournalLine {
    fn merge_repeat(&mut self, later: Self) {
        self.times += later.times;
        self.until = Some(later.until.unwrap_or(later.at));
        self.entry = later.entry;
    }
}

impl JournalEntry {
    fn is_routine(&self) -> bool {
        match self {
            Self::Triggered { .. } | Self::Started | Self::Ended(_) => true,
            Self::Wrote { version, .. } => version.is_none(),
            _ => false,
        }
    }

    /// Whether two entries differ only in versions and wording.
    fn is_same_event(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Pushback { class: one, .. }, Self::Pushback { class: two, .. }) => one == two,
            (
                Self::Wrote { verb, object, version },
                Self::Wrote {
                    verb: other_verb,
                    object: other_object,
                    version: other_version,
                },
            ) => {
                let written = version.is_some() == other_version.is_some();
                written && verb == other_verb && object == other_object
            }
            (Self::Condition { .. }, _) => false,
            (one, two) => one == two,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;

    use super::*;
    use crate::error::ErrorClass;
    use crate::key::{ObjectKey, ObjectRef};

    fn line(second: i64, entry: JournalEntry) -> JournalLine {
        JournalLine {
            at: Timestamp::from_second(second).expect("a time"),
            offset: Duration::ZERO,
            times: 1,
            until: None,
            entry,
        }
    }

    fn condition(status: &'static str) -> JournalEntry {
        JournalEntry::Condition {
            condition: "Accepted".to_owned(),
            status,
            reason: "Valid".to_owned(),
        }
    }

    fn lost(winner: &str) -> [JournalEntry; 3] {
        let object = ObjectRef {
            kind: "HTTPProxy".into(),
            key: ObjectKey::new(Some("default"), "web"),
        };
        let pushback = JournalEntry::Pushback {
            class: ErrorClass::Conflict,
            message: format!("{winner} was first"),
        };
        let winner = Some(winner.to_owned());
        [
            JournalEntry::Started,
            pushback,
            JournalEntry::Conflict { object, winner },
        ]
    }

    fn conflicts(page: &ObjectJournal) -> Vec<(String, u64)> {
        let told = page.lines().filter_map(|line| match &line.entry {
            JournalEntry::Conflict { winner, .. } => Some((winner.clone()?, line.times)),
            _ => None,
        });
        told.collect()
    }

    #[test]
    fn routine_lines_do_not_evict_a_burst() {
        let mut page = ObjectJournal::default();
        for second in 1..=18 {
            for entry in lost("another") {
                page.add(line(second, entry), 32);
            }
        }
        page.add(line(19, condition("True")), 32);
        for second in 20..2_000 {
            page.add(line(second, JournalEntry::Started), 32);
            page.add(line(second, JournalEntry::Ended("recheck")), 32);
        }
        assert!(page.lines().count() <= 32);
        assert_eq!(conflicts(&page), [("another".to_owned(), 18)]);
    }

    #[test]
    fn burst_is_merged_and_keeps_its_first_line() {
        let mut page = ObjectJournal::default();
        page.add(line(0, condition("Unknown")), 16);
        for second in 1..=200 {
            for entry in lost("another") {
                page.add(line(second, entry), 16);
            }
        }
        page.add(line(201, condition("True")), 16);
        assert!(page.lines().count() <= 16);
        assert_eq!(page.lines().next().map(|it| &it.entry), Some(&condition("Unknown")));
        let counted: u64 = conflicts(&page).iter().map(|(_, times)| times).sum();
        assert_eq!(counted, 200);
        assert!(page.lines.iter().is_sorted_by_key(|it| it.at));
    }

    #[test]
    fn what_happened_before_and_after_a_condition_changed_is_counted_apart() {
        let mut page = ObjectJournal::default();
        for (seconds, winner) in [(0..20, "another"), (30..50, "another"), (60..80, "other")] {
            let after = seconds.end;
            for second in seconds {
                for entry in lost(winner) {
                    page.add(line(second, entry), 24);
                }
            }
            page.add(line(after, condition("True")), 24);
        }
        let before = |second: i64| {
            let at = Timestamp::from_second(second).expect("a time");
            let early = page.lines().filter(|it| it.at < at);
            let told = early.filter(|it| matches!(it.entry, JournalEntry::Conflict { .. }));
            told.map(|it| it.times).sum::<u64>()
        };
        assert_eq!((before(25), before(55), before(99)), (20, 40, 60));
    }

    #[test]
    fn lines_that_all_differ_go_oldest_first() {
        let mut page = ObjectJournal::default();
        for (second, status) in (0..).zip(["True", "False", "Unknown"]) {
            page.add(line(second, condition(status)), 2);
        }
        let first = page.lines().next().map(|it| &it.entry);
        assert_eq!(first, Some(&condition("False")));
    }
}
