//! The output of the demo, as text for people or as one JSON object per line for programs. It only formats.

mod page;

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use self::page::TextPage;
use crate::DemoOptions;

/// The addresses and files to begin with.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ReadyMessage {
    pub(crate) page: String,
    /// The URL of the first tunnel.
    pub(crate) url: String,
    pub(crate) kubeconfig: String,
    pub(crate) log: String,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct StoryTitle {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// What happens in other systems.
    pub(crate) elsewhere: &'static str,
}

/// A row of the two timelines: what happened here, and what the usual way would have done by then.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoryMoment {
    pub(crate) at: Duration,
    pub(crate) ours: Option<String>,
    pub(crate) baseline: Option<String>,
}

impl StoryMoment {
    pub(crate) fn ours(at: Duration, what: impl Into<String>) -> Self {
        Self {
            at,
            ours: Some(what.into()),
            baseline: None,
        }
    }

    pub(crate) fn baseline(at: Duration, what: impl Into<String>) -> Self {
        Self {
            at,
            ours: None,
            baseline: Some(what.into()),
        }
    }

    pub(crate) fn both(at: Duration, what: &str) -> Self {
        Self {
            at,
            ours: Some(what.to_owned()),
            baseline: Some(what.to_owned()),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoryResult {
    pub(crate) pass: bool,
    /// The result in one line.
    pub(crate) figure: String,
    /// The numbers in that line.
    pub(crate) numbers: Value,
}

#[derive(Debug)]
pub(crate) struct Narrator {
    format: OutputFormat,
    /// Pauses are for people, and are divided by this; `None` without a reader.
    speed: Option<f64>,
    script: &'static str,
}

#[derive(Debug)]
enum OutputFormat {
    Text(TextPage),
    Json,
}

impl Narrator {
    pub(crate) fn new(options: &DemoOptions) -> Self {
        Self {
            format: match options.json {
                true => OutputFormat::Json,
                false => OutputFormat::Text(TextPage::new(options.colour)),
            },
            speed: options.terminal.then_some(options.speed),
            script: "",
        }
    }

    pub(crate) fn print_ready(&self, ready: &ReadyMessage) {
        match &self.format {
            OutputFormat::Text(page) => write_stdout(&page.format_ready(ready)),
            OutputFormat::Json => self.print_json("ready", json!(ready)),
        }
    }

    pub(crate) fn begin_story(&mut self, number: usize, of: usize, title: &StoryTitle) {
        self.script = title.name;
        match &self.format {
            OutputFormat::Text(page) => write_stdout(&page.format_title(number, of, title)),
            OutputFormat::Json => {
                let text = format!("{}: {}", title.title, title.elsewhere);
                self.print_json("say", json!({ "text": text }));
            }
        }
    }

    pub(crate) fn print_text(&self, text: &str) {
        match &self.format {
            OutputFormat::Text(page) => write_stdout(&page.format_text(text)),
            OutputFormat::Json => self.print_json("say", json!({ "text": text })),
        }
    }

    /// Prints an event, with the time since the story began.
    pub(crate) fn print_event(&self, at: Duration, what: &str) {
        match &self.format {
            OutputFormat::Text(page) => write_stdout(&page.format_event(at, what)),
            OutputFormat::Json => self.print_moment(at, "aplomb", what),
        }
    }

    /// Prints the two timelines side by side.
    pub(crate) fn print_timelines(&self, moments: &[StoryMoment]) {
        match &self.format {
            OutputFormat::Text(page) => write_stdout(&page.format_timelines(moments)),
            OutputFormat::Json => {
                let usual = moments.iter().filter_map(|it| Some((it.at, it.baseline.as_ref()?)));
                for (at, what) in usual {
                    self.print_moment(at, "usual", what);
                }
            }
        }
    }

    pub(crate) fn print_result(&self, verdict: &StoryResult) {
        match &self.format {
            OutputFormat::Text(page) => write_stdout(&page.format_result(self.script, verdict)),
            OutputFormat::Json => {
                let StoryResult { pass, figure, numbers } = verdict;
                let word = result_word(*pass);
                let said = json!({ "result": word, "figure": figure, "numbers": numbers });
                self.print_json("result", said);
            }
        }
    }

    pub(crate) fn print_results(&mut self, verdicts: &[(&'static str, bool)]) {
        self.script = "";
        let passed = verdicts.iter().filter(|(_, pass)| *pass).count();
        match &self.format {
            OutputFormat::Text(page) => {
                let text = format!("{passed} of {} stories passed.", verdicts.len());
                write_stdout(&page.format_results(&text));
            }
            OutputFormat::Json => {
                let each = verdicts.iter().map(|(name, pass)| (*name, result_word(*pass)));
                let results: BTreeMap<&str, &str> = each.collect();
                let pass = passed == verdicts.len();
                self.print_json("results", json!({ "pass": pass, "results": results }));
            }
        }
    }

    /// Prints which commands can be tried now.
    pub(crate) fn print_stay(&self, kubeconfig: &Path) {
        match &self.format {
            OutputFormat::Text(page) => write_stdout(&page.format_stay(kubeconfig)),
            OutputFormat::Json => self.print_json("say", json!({ "text": "running until a signal arrives" })),
        }
    }

    /// A pause for reading, if a person reads.
    pub(crate) async fn pause_reading(&self, time: Duration) {
        if let Some(speed) = self.speed {
            sleep(time.div_f64(speed)).await;
        }
    }

    fn print_moment(&self, at: Duration, who: &str, what: &str) {
        let said = json!({ "at": at.as_secs_f64(), "who": who, "what": what });
        self.print_json("event", said);
    }

    fn print_json(&self, kind: &str, mut said: Value) {
        said["kind"] = json!(kind);
        if !self.script.is_empty() {
            said["script"] = json!(self.script);
        }
        write_stdout(&format!("{said}\n"));
    }
}

fn result_word(pass: bool) -> &'static str {
    match pass {
        true => "PASS",
        false => "FAIL",
    }
}

/// A closed output is not an error: the reader may have left.
fn write_stdout(text: &str) {
    let mut out = std::io::stdout().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// What is being started, on a terminal only.
#[derive(Debug)]
pub(crate) struct ProgressLine {
    shown: bool,
}

impl ProgressLine {
    pub(crate) fn new(options: &DemoOptions) -> Self {
        let shown = !options.json && std::io::stderr().is_terminal();
        Self { shown }
    }

    pub(crate) fn show(&self, what: &str) {
        if self.shown {
            eprint!("\r\x1b[2K{what} ...");
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.shown {
            eprint!("\r\x1b[2K");
        }
    }
}
