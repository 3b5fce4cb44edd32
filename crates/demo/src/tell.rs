//! What the demo says, as text for people or as one JSON object per line for programs. Says it, and
//! knows nothing of what it means.

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

/// What there is to begin with.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ReadyMessage {
    /// The page.
    pub(crate) page: String,
    /// The first tunnel.
    pub(crate) url: String,
    pub(crate) kubeconfig: String,
    pub(crate) log: String,
}

/// How a story begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoryTitle {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// What happens without us.
    pub(crate) elsewhere: &'static str,
}

/// A moment here, and what the usual way would have come to by then.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoryMoment {
    pub(crate) at: Duration,
    pub(crate) ours: Option<String>,
    pub(crate) usual: Option<String>,
}

impl StoryMoment {
    pub(crate) fn ours(at: Duration, what: impl Into<String>) -> Self {
        Self {
            at,
            ours: Some(what.into()),
            usual: None,
        }
    }

    pub(crate) fn usual(at: Duration, what: impl Into<String>) -> Self {
        Self {
            at,
            ours: None,
            usual: Some(what.into()),
        }
    }

    pub(crate) fn both(at: Duration, what: &str) -> Self {
        Self {
            at,
            ours: Some(what.to_owned()),
            usual: Some(what.to_owned()),
        }
    }
}

/// How a story ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoryResult {
    pub(crate) pass: bool,
    /// One line.
    pub(crate) figure: String,
    /// The numbers of it.
    pub(crate) numbers: Value,
}

/// Says everything.
#[derive(Debug)]
pub(crate) struct Narrator {
    form: Form,
    /// Pauses are for people, and divided by this.
    speed: Option<f64>,
    script: &'static str,
}

#[derive(Debug)]
enum Form {
    Text(TextPage),
    Json,
}

impl Narrator {
    pub(crate) fn new(options: &DemoOptions) -> Self {
        Self {
            form: match options.json {
                true => Form::Json,
                false => Form::Text(TextPage::new(options.colour)),
            },
            speed: options.terminal.then_some(options.speed),
            script: "",
        }
    }

    pub(crate) fn ready(&self, ready: &ReadyMessage) {
        match &self.form {
            Form::Text(page) => print(&page.ready(ready)),
            Form::Json => self.line("ready", json!(ready)),
        }
    }

    pub(crate) fn begin(&mut self, number: usize, of: usize, title: &StoryTitle) {
        self.script = title.name;
        match &self.form {
            Form::Text(page) => print(&page.begin(number, of, title)),
            Form::Json => {
                let text = format!("{}: {}", title.title, title.elsewhere);
                self.line("say", json!({ "text": text }));
            }
        }
    }

    /// Says something in between.
    pub(crate) fn say(&self, text: &str) {
        match &self.form {
            Form::Text(page) => print(&page.say(text)),
            Form::Json => self.line("say", json!({ "text": text })),
        }
    }

    /// Something happened, this long after the story began.
    pub(crate) fn event(&self, at: Duration, what: &str) {
        match &self.form {
            Form::Text(page) => print(&page.event(at, what)),
            Form::Json => self.moment(at, "aplomb", what),
        }
    }

    /// The two timelines, one beside the other.
    pub(crate) fn beside(&self, moments: &[StoryMoment]) {
        match &self.form {
            Form::Text(page) => print(&page.beside(moments)),
            Form::Json => {
                let usual = moments
                    .iter()
                    .filter_map(|it| Some((it.at, it.usual.as_ref()?)));
                for (at, what) in usual {
                    self.moment(at, "usual", what);
                }
            }
        }
    }

    pub(crate) fn result(&self, verdict: &StoryResult) {
        match &self.form {
            Form::Text(page) => print(&page.result(self.script, verdict)),
            Form::Json => {
                let StoryResult {
                    pass,
                    figure,
                    numbers,
                } = verdict;
                let word = word(*pass);
                let said = json!({ "result": word, "figure": figure, "numbers": numbers });
                self.line("result", said);
            }
        }
    }

    /// How all of them ended.
    pub(crate) fn results(&mut self, verdicts: &[(&'static str, bool)]) {
        self.script = "";
        let passed = verdicts.iter().filter(|(_, pass)| *pass).count();
        match &self.form {
            Form::Text(page) => {
                let text = format!("{passed} of {} came out as promised.", verdicts.len());
                print(&page.results(&text));
            }
            Form::Json => {
                let each = verdicts.iter().map(|(name, pass)| (*name, word(*pass)));
                let results: BTreeMap<&str, &str> = each.collect();
                let pass = passed == verdicts.len();
                self.line("results", json!({ "pass": pass, "results": results }));
            }
        }
    }

    /// What can be looked at now.
    pub(crate) fn stay(&self, kubeconfig: &Path) {
        match &self.form {
            Form::Text(page) => print(&page.stay(kubeconfig)),
            Form::Json => self.line(
                "say",
                json!({ "text": "everything stays up until a signal" }),
            ),
        }
    }

    /// Time to read, where somebody does.
    pub(crate) async fn pause(&self, time: Duration) {
        if let Some(speed) = self.speed {
            sleep(time.div_f64(speed)).await;
        }
    }

    fn moment(&self, at: Duration, who: &str, what: &str) {
        let said = json!({ "at": at.as_secs_f64(), "who": who, "what": what });
        self.line("event", said);
    }

    fn line(&self, kind: &str, mut said: Value) {
        said["kind"] = json!(kind);
        if !self.script.is_empty() {
            said["script"] = json!(self.script);
        }
        print(&format!("{said}\n"));
    }
}

/// The word for how a story ended.
fn word(pass: bool) -> &'static str {
    match pass {
        true => "PASS",
        false => "FAIL",
    }
}

/// Nobody may be reading any more; that is no reason to fail.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// What is going on while nothing can be shown yet: on a terminal, and nowhere else.
#[derive(Debug)]
pub(crate) struct ProgressLine {
    shown: bool,
}

impl ProgressLine {
    pub(crate) fn new(options: &DemoOptions) -> Self {
        let shown = !options.json && std::io::stderr().is_terminal();
        Self { shown }
    }

    /// Replaces what was shown before.
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
