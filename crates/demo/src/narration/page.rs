//! The text for people: short lines, two timelines side by side, one line for the result. Pure.

use std::path::Path;
use std::time::Duration;

use super::{ReadyMessage, StoryMoment, StoryResult, StoryTitle, result_word};

const WIDTH: usize = 100;
/// The widths of the columns with the time and with what happened here.
const TIME: usize = 13;
const OURS: usize = 36;

#[derive(Clone, Copy, Debug)]
pub(super) struct TextPage {
    colour: bool,
}

#[derive(Clone, Copy)]
enum Style {
    Bold,
    Dim,
    Green,
    Red,
}

impl TextPage {
    pub(super) fn new(colour: bool) -> Self {
        Self { colour }
    }

    pub(super) fn format_ready(self, ready: &ReadyMessage) -> String {
        let mut text = wrap_text(
            "",
            "A Kubernetes API server, three operators, a gateway, an agent with a local service, and \
             simulated coderd and Hetzner APIs. Everything runs in this process and ends with it.",
        );
        text.push('\n');
        let mut row = |name: &str, value: &str| {
            let name = self.paint(Style::Bold, &format!("{name:<9}"));
            text.push_str(&format!("  {name} {value}\n"));
        };
        row("page", &ready.page);
        row("tunnel", &format!("curl {}", ready.url));
        row("kubectl", &format!("export KUBECONFIG={}", ready.kubeconfig));
        row("logs", &ready.log);
        text
    }

    pub(super) fn format_title(self, number: usize, of: usize, title: &StoryTitle) -> String {
        let head = format!("{number}/{of}  {}: {}", title.name, title.title);
        let elsewhere = wrap_text("     ", &format!("Elsewhere: {}", title.elsewhere));
        let head = self.paint(Style::Bold, &head);
        format!("\n{head}\n{}\n\n", self.paint(Style::Dim, elsewhere.trim_end()))
    }

    pub(super) fn format_text(self, text: &str) -> String {
        wrap_text("     ", text)
    }

    pub(super) fn format_event(self, at: Duration, what: &str) -> String {
        let indent = " ".repeat(5 + TIME);
        let text = wrap_text(&indent, what);
        format!("     {:<TIME$}{}", format_clock(at), text.trim_start())
    }

    pub(super) fn format_timelines(self, moments: &[StoryMoment]) -> String {
        let moments = merge_moments(moments);
        let head = format!("     {:<TIME$}{:<OURS$}the usual way, on the same events", "", "here");
        let mut text = format!("\n{}\n", self.paint(Style::Bold, &head));
        for StoryMoment {
            at,
            ours,
            baseline: usual,
        } in moments
        {
            let room = WIDTH - 5 - TIME - OURS;
            let ours = split_lines(ours.as_deref().unwrap_or_default(), OURS - 2);
            let usual = split_lines(usual.as_deref().unwrap_or_default(), room);
            for row in 0..ours.len().max(usual.len()).max(1) {
                let time = if row == 0 { format_clock(at) } else { String::new() };
                let cell = |all: &[String]| all.get(row).cloned().unwrap_or_default();
                let (ours, usual) = (cell(&ours), cell(&usual));
                let line = format!("     {time:<TIME$}{ours:<OURS$}{usual}");
                text.push_str(line.trim_end());
                text.push('\n');
            }
        }
        text.push('\n');
        text
    }

    pub(super) fn format_result(self, script: &str, verdict: &StoryResult) -> String {
        let style = if verdict.pass { Style::Green } else { Style::Red };
        let word = self.paint(style, result_word(verdict.pass));
        let figure = wrap_text(&" ".repeat(17), &verdict.figure);
        format!("{word} {script:<12}{}", figure.trim_start())
    }

    pub(super) fn format_results(self, text: &str) -> String {
        format!("\n{}", wrap_text("", text))
    }

    pub(super) fn format_stay(self, kubeconfig: &Path) -> String {
        let kubeconfig = kubeconfig.display();
        let mut text = wrap_text("", "Running until Ctrl-C. In another terminal:");
        text.insert(0, '\n');
        text.push('\n');
        for line in [
            &format!("export KUBECONFIG={kubeconfig}"),
            "aplomb get -A",
            "aplomb status",
            "aplomb trace httpproxy/hello",
            "kubectl get aplomb -A",
        ] {
            text.push_str(&format!("  {line}\n"));
        }
        text
    }

    fn paint(self, style: Style, text: &str) -> String {
        if !self.colour {
            return text.to_owned();
        }
        let code = match style {
            Style::Bold => 1,
            Style::Dim => 2,
            Style::Green => 32,
            Style::Red => 31,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// Sorted by time; moments of the same time share a row.
fn merge_moments(moments: &[StoryMoment]) -> Vec<StoryMoment> {
    let mut sorted = moments.to_vec();
    sorted.sort_by_key(|it| it.at);
    let mut all: Vec<StoryMoment> = Vec::new();
    for moment in sorted {
        match all.last_mut() {
            Some(last) if last.at == moment.at && last.baseline.is_none() && moment.ours.is_none() => {
                last.baseline = moment.baseline;
            }
            _ => all.push(moment),
        }
    }
    all
}

/// A time for people: `0.131 s`, `12.4 s`, `10 min 51 s`.
pub(super) fn format_clock(at: Duration) -> String {
    let seconds = at.as_secs_f64();
    match at.as_secs() {
        0..10 => format!("{seconds:.3} s"),
        10..100 => format!("{seconds:.1} s"),
        whole => format!("{} min {:02} s", whole / 60, whole % 60),
    }
}

/// Text wrapped at [`WIDTH`], each line with `indent`.
fn wrap_text(indent: &str, text: &str) -> String {
    let lines = split_lines(text, WIDTH - indent.len());
    let indented = lines.iter().map(|line| format!("{indent}{line}\n"));
    indented.collect()
}

/// Text wrapped at `width`; a longer word has its own line.
fn split_lines(text: &str, width: usize) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match all.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => all.push(word.to_owned()),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timelines_are_side_by_side_in_order_of_time() {
        let moments = [
            StoryMoment::baseline(Duration::from_secs(651), "the first request is answered"),
            StoryMoment::both(Duration::ZERO, "created"),
            StoryMoment::ours(Duration::from_millis(420), "proven, and ".to_owned() + &"w ".repeat(60)),
        ];
        let text = TextPage::new(false).format_timelines(&moments);
        let rows: Vec<&str> = text.lines().skip(2).collect();
        assert!(rows[0].starts_with("     0.000 s      created"), "{text}");
        assert_eq!(rows[0].matches("created").count(), 2);
        assert!(rows.iter().any(|row| row.contains("10 min 51 s")), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
    }

    #[test]
    fn a_result_begins_with_its_word_and_is_plain_without_colour() {
        let verdict = StoryResult {
            pass: false,
            figure: "proven after 7 s".to_owned(),
            numbers: serde_json::Value::Null,
        };
        let plain = TextPage::new(false).format_result("tunnel", &verdict);
        assert_eq!(plain, "FAIL tunnel      proven after 7 s\n");
        assert!(
            TextPage::new(true)
                .format_result("tunnel", &verdict)
                .starts_with("\x1b[31mFAIL")
        );
    }
}
