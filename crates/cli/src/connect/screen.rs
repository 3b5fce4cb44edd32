//! The output of `aplomb connect`: stages on standard error as they happen and the URL on standard output
//! once it is proven, or with `--json` each event as a line on standard output.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use aplomb_tunnel_agent::AgentEvent;
use tokio::time::{Instant, sleep, sleep_until};

const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const FRAME_TIME: Duration = Duration::from_millis(100);
const CLEAR_LINE: &str = "\r\x1b[2K";

#[derive(Clone, Copy)]
enum Mark {
    Done,
    Trouble,
}

pub(super) struct ConnectScreen {
    json: bool,
    started: Instant,
    /// Standard error is a terminal, so that progress can be shown.
    live: bool,
    colour: bool,
    frame: usize,
    spinner_drawn: bool,
    /// The awaited state.
    waiting: &'static str,
    accepted: bool,
    hint_shown: bool,
    last_problem: Option<String>,
}

impl ConnectScreen {
    pub(super) fn new(json: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let said = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let dumb = said("TERM").is_some_and(|term| term == "dumb");
        Self {
            json,
            started: Instant::now(),
            live: terminal && !dumb && !json,
            colour: terminal && !dumb && said("NO_COLOR").is_none(),
            frame: 0,
            spinner_drawn: false,
            waiting: "the API server",
            accepted: false,
            hint_shown: false,
            last_problem: None,
        }
    }

    pub(super) fn show(&mut self, event: &AgentEvent) {
        self.accepted |= matches!(event, AgentEvent::Accepted { .. });
        if let AgentEvent::NotReady { reason, message } = event {
            self.last_problem = Some(format!("{reason}: {message}"));
        }
        if self.json {
            return self.print_json(event);
        }
        let (mark, word, text) = describe_event(event);
        self.print_line(mark, word, &text);
        self.waiting = waiting_text(event).unwrap_or(self.waiting);
        if let AgentEvent::Proven { url } = event {
            // The reader may have closed the pipe; the tunnel stays up.
            drop(writeln!(std::io::stdout(), "{url}"));
        }
    }

    /// One event as JSON, with the time since the start.
    fn print_json(&self, event: &AgentEvent) {
        let mut line = serde_json::to_value(event).unwrap_or_default();
        line["elapsedMs"] = serde_json::json!(self.started.elapsed().as_millis());
        // The reader may have closed the pipe; the tunnel stays up.
        drop(writeln!(std::io::stdout(), "{line}"));
    }

    fn print_line(&mut self, mark: Mark, word: &str, text: &str) {
        self.clear_line();
        let elapsed = self.started.elapsed().as_secs_f64();
        let (glyph, colour) = match mark {
            Mark::Done => ("✓", "32"),
            Mark::Trouble => ("!", "33"),
        };
        let glyph = match self.colour {
            true => format!("\x1b[{colour}m{glyph}\x1b[0m"),
            false => glyph.to_owned(),
        };
        eprintln!("{glyph} {elapsed:>7.3} s  {word:<11} {text}");
    }

    /// Updates the progress line, and prints a hint once after a long time without events.
    pub(super) async fn tick(&mut self, hint: Instant) {
        let quiet = !self.accepted && !self.hint_shown && !self.json;
        let hint = async {
            match quiet {
                true => sleep_until(hint).await,
                false => std::future::pending().await,
            }
        };
        let frame = async {
            match self.live && !self.waiting.is_empty() {
                true => sleep(FRAME_TIME).await,
                false => std::future::pending().await,
            }
        };
        let silent = tokio::select! {
            biased;
            () = hint => true,
            () = frame => false,
        };
        match silent {
            true => {
                self.hint_shown = true;
                let text = "the connector is not accepted yet; check that `aplomb run tunnel` runs";
                self.print_line(Mark::Trouble, "waiting", text);
            }
            false => self.draw_spinner(),
        }
    }

    fn draw_spinner(&mut self) {
        self.frame = (self.frame + 1) % FRAMES.len();
        self.spinner_drawn = true;
        let elapsed = self.started.elapsed().as_secs();
        eprint!(
            "{CLEAR_LINE}{} {elapsed:>5} s  waiting for {}",
            FRAMES[self.frame], self.waiting
        );
        drop(std::io::stderr().flush());
    }

    fn clear_line(&mut self) {
        if std::mem::take(&mut self.spinner_drawn) {
            eprint!("{CLEAR_LINE}");
        }
    }

    pub(super) fn finish(&mut self) {
        self.clear_line();
        self.live = false;
    }

    /// The last problem, as an ending of a sentence.
    pub(super) fn last_problem(&self) -> String {
        let trouble = self.last_problem.as_ref();
        trouble.map_or_else(String::new, |trouble| format!(": {trouble}"))
    }
}

fn describe_event(event: &AgentEvent) -> (Mark, &'static str, String) {
    match event {
        AgentEvent::Registered {
            namespace,
            connector,
            tunnel,
            ..
        } => {
            let tunnel = tunnel.as_ref();
            let tunnel = tunnel.map_or_else(String::new, |name| format!(", httpproxy {name}"));
            let text = format!("connector {connector}{tunnel} in namespace {namespace}");
            (Mark::Done, "registered", text)
        }
        AgentEvent::Accepted { gateways, relays } => {
            let text = format!("{}, {}", pluralize(*gateways, "gateway"), pluralize(*relays, "relay"));
            (Mark::Done, "accepted", text)
        }
        AgentEvent::Listening { addresses, relay, .. } => {
            let direct = addresses.iter().map(ToString::to_string);
            let all: Vec<String> = direct.chain(relay.clone()).collect();
            (Mark::Done, "listening", all.join(", "))
        }
        AgentEvent::HeartbeatLost { message } => (Mark::Trouble, "heartbeat", message.clone()),
        AgentEvent::HeartbeatRecovered => (Mark::Done, "heartbeat", "restored".to_owned()),
        AgentEvent::Programmed => (Mark::Done, "programmed", "served by every gateway".to_owned()),
        AgentEvent::Proven { .. } => {
            let text = "a signed response came back through every gateway".to_owned();
            (Mark::Done, "proven", text)
        }
        AgentEvent::NotReady { reason, message } => (Mark::Trouble, "not ready", format!("{reason}: {message}")),
        AgentEvent::OriginUnreachable { message } => (Mark::Trouble, "service", message.clone()),
        AgentEvent::Refused { message } => (Mark::Trouble, "refused", message.clone()),
        AgentEvent::Deleted { object } => (Mark::Trouble, "deleted", object.clone()),
        AgentEvent::Released => (Mark::Done, "released", "the connector is offline".to_owned()),
    }
}

/// The next awaited state after an event; `None` after the last.
fn waiting_text(event: &AgentEvent) -> Option<&'static str> {
    match event {
        AgentEvent::Registered { .. } => Some("the operator to accept the connector"),
        AgentEvent::Accepted { .. } => Some("addresses to publish"),
        AgentEvent::Listening { .. } => Some("every gateway to serve it"),
        AgentEvent::Programmed => Some("the proof"),
        AgentEvent::Proven { .. } | AgentEvent::Released | AgentEvent::Deleted { .. } => Some(""),
        AgentEvent::NotReady { .. } => Some("the tunnel to work"),
        AgentEvent::OriginUnreachable { .. }
        | AgentEvent::Refused { .. }
        | AgentEvent::HeartbeatLost { .. }
        | AgentEvent::HeartbeatRecovered => None,
    }
}

fn pluralize(number: usize, what: &str) -> String {
    match number {
        0 => format!("no {what}"),
        1 => format!("1 {what}"),
        more => format!("{more} {what}s"),
    }
}
