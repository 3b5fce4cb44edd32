//! The output of `aplomb connect`: stages on standard error as they happen and the URL on standard output
//! once it is proven, or with `--json` each event as a line on standard output.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use aplomb_tunnel_agent::AgentEvent;
use tokio::time::{Instant, sleep, sleep_until};

const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const FRAME: Duration = Duration::from_millis(100);
const WIPE: &str = "\r\x1b[2K";

/// The meaning of a line.
#[derive(Clone, Copy)]
enum Mark {
    Done,
    Trouble,
}

/// A screen.
pub(super) struct ConnectScreen {
    json: bool,
    began: Instant,
    /// Standard error is a terminal, so that progress can be shown.
    live: bool,
    colour: bool,
    frame: usize,
    spinning: bool,
    /// The awaited state.
    waiting: &'static str,
    accepted: bool,
    hinted: bool,
    trouble: Option<String>,
}

impl ConnectScreen {
    pub(super) fn new(json: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let said = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let dumb = said("TERM").is_some_and(|term| term == "dumb");
        Self {
            json,
            began: Instant::now(),
            live: terminal && !dumb && !json,
            colour: terminal && !dumb && said("NO_COLOR").is_none(),
            frame: 0,
            spinning: false,
            waiting: "the API server",
            accepted: false,
            hinted: false,
            trouble: None,
        }
    }

    /// Prints an event.
    pub(super) fn show(&mut self, event: &AgentEvent) {
        self.accepted |= matches!(event, AgentEvent::Accepted { .. });
        if let AgentEvent::NotReady { reason, message } = event {
            self.trouble = Some(format!("{reason}: {message}"));
        }
        if self.json {
            return self.line(event);
        }
        let (mark, word, text) = told(event);
        self.print(mark, word, &text);
        self.waiting = waiting(event).unwrap_or(self.waiting);
        if let AgentEvent::Proven { url } = event {
            // The reader may have closed the pipe; the tunnel stays up.
            drop(writeln!(std::io::stdout(), "{url}"));
        }
    }

    /// One event as JSON, with the time since the start.
    fn line(&self, event: &AgentEvent) {
        let mut line = serde_json::to_value(event).unwrap_or_default();
        line["elapsedMs"] = serde_json::json!(self.began.elapsed().as_millis());
        // The reader may have closed the pipe; the tunnel stays up.
        drop(writeln!(std::io::stdout(), "{line}"));
    }

    fn print(&mut self, mark: Mark, word: &str, text: &str) {
        self.wipe();
        let elapsed = self.began.elapsed().as_secs_f64();
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
        let quiet = !self.accepted && !self.hinted && !self.json;
        let hint = async {
            match quiet {
                true => sleep_until(hint).await,
                false => std::future::pending().await,
            }
        };
        let frame = async {
            match self.live && !self.waiting.is_empty() {
                true => sleep(FRAME).await,
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
                self.hinted = true;
                let text = "the connector is not accepted yet; check that `aplomb run tunnel` runs";
                self.print(Mark::Trouble, "waiting", text);
            }
            false => self.spin(),
        }
    }

    fn spin(&mut self) {
        self.frame = (self.frame + 1) % FRAMES.len();
        self.spinning = true;
        let elapsed = self.began.elapsed().as_secs();
        eprint!(
            "{WIPE}{} {elapsed:>5} s  waiting for {}",
            FRAMES[self.frame], self.waiting
        );
        drop(std::io::stderr().flush());
    }

    fn wipe(&mut self) {
        if std::mem::take(&mut self.spinning) {
            eprint!("{WIPE}");
        }
    }

    /// Removes the progress line.
    pub(super) fn end(&mut self) {
        self.wipe();
        self.live = false;
    }

    /// The last problem, as an ending of a sentence.
    pub(super) fn trouble(&self) -> String {
        let trouble = self.trouble.as_ref();
        trouble.map_or_else(String::new, |trouble| format!(": {trouble}"))
    }
}

/// The line for an event.
fn told(event: &AgentEvent) -> (Mark, &'static str, String) {
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
            let text = format!(
                "{}, {}",
                count(*gateways, "gateway"),
                count(*relays, "relay")
            );
            (Mark::Done, "accepted", text)
        }
        AgentEvent::Listening {
            addresses, relay, ..
        } => {
            let direct = addresses.iter().map(ToString::to_string);
            let all: Vec<String> = direct.chain(relay.clone()).collect();
            (Mark::Done, "listening", all.join(", "))
        }
        AgentEvent::HeartbeatLost { message } => (Mark::Trouble, "heartbeat", message.clone()),
        AgentEvent::HeartbeatRecovered => {
            (Mark::Done, "heartbeat", "restored".to_owned())
        }
        AgentEvent::Programmed => (
            Mark::Done,
            "programmed",
            "served by every gateway".to_owned(),
        ),
        AgentEvent::Proven { .. } => {
            let text = "a signed response came back through every gateway".to_owned();
            (Mark::Done, "proven", text)
        }
        AgentEvent::NotReady { reason, message } => {
            (Mark::Trouble, "not ready", format!("{reason}: {message}"))
        }
        AgentEvent::OriginUnreachable { message } => (Mark::Trouble, "service", message.clone()),
        AgentEvent::Refused { message } => (Mark::Trouble, "refused", message.clone()),
        AgentEvent::Deleted { object } => (Mark::Trouble, "deleted", object.clone()),
        AgentEvent::Released => (
            Mark::Done,
            "released",
            "the connector is offline".to_owned(),
        ),
    }
}

/// The next awaited state after an event; `None` after the last.
fn waiting(event: &AgentEvent) -> Option<&'static str> {
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

fn count(number: usize, what: &str) -> String {
    match number {
        0 => format!("no {what}"),
        1 => format!("1 {what}"),
        more => format!("{more} {what}s"),
    }
}
