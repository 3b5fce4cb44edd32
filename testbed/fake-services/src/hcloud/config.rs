//! What a simulated project is given: tokens, limits and the switches for what is not known.
//!
//! Where the evidence on the real service is missing or contradicts itself there is a switch here,
//! never a guess hidden in the code.

use std::ops::RangeInclusive;
use std::time::Duration;

use aplomb_apimachinery::clock::Clock;

/// The project of tokens that name none.
pub const DEFAULT_PROJECT: &str = "default";

/// How to set up a simulated Hetzner Cloud.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where time comes from; virtual when tokio's clock is paused.
    pub clock: Clock,
    /// Everything random is drawn from this.
    pub seed: u64,
    /// Who may call.
    pub tokens: Vec<Token>,
    /// Requests a full bucket allows.
    pub limit: u64,
    /// Tokens a bucket gains per second; `None` fills it in an hour.
    pub refill_per_second: Option<f64>,
    /// Who shares a bucket.
    pub per: Scope,
    /// How long an action runs, drawn from this range.
    pub action_time: RangeInclusive<Duration>,
    /// Whether a refused request costs the part of a token that had refilled.
    pub drain_on_refusal: bool,
    /// What an assign to the server that already holds the address gets.
    pub same_server_assign: SameServer,
}

impl Config {
    /// The documented limits with one token in the default project.
    #[must_use]
    pub fn new(clock: Clock, seed: u64, token: &str) -> Self {
        Self {
            clock,
            seed,
            tokens: vec![Token::new(token)],
            limit: 3600,
            refill_per_second: None,
            per: Scope::Project,
            action_time: Duration::from_millis(500)..=Duration::from_secs(1),
            drain_on_refusal: false,
            same_server_assign: SameServer::Accepted,
        }
    }

    /// Tokens a bucket gains per second.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "limits are far below 2^52 requests")]
    pub fn refill(&self) -> f64 {
        self.refill_per_second.unwrap_or(self.limit as f64 / 3600.0)
    }
}

/// Who shares a bucket. The documentation says a project, the error text names a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// All tokens of a project.
    #[default]
    Project,
    /// Each token has its own.
    Token,
}

/// What an assign to the present holder gets; which one is real is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SameServer {
    /// 201 and an action that changes nothing.
    #[default]
    Accepted,
    /// 422 `floating_ip_assigned`.
    Refused,
}

/// A token that is accepted. Its text is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    pub(super) text: String,
    /// Its project.
    pub project: String,
    /// Whether it may only read.
    pub read_only: bool,
}

impl Token {
    /// A token of the default project that may read and write.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            project: DEFAULT_PROJECT.to_owned(),
            read_only: false,
        }
    }

    /// The same token in a project of that name.
    #[must_use]
    pub fn of(mut self, project: &str) -> Self {
        project.clone_into(&mut self.project);
        self
    }

    /// Reads a token file: `TOKEN [PROJECT [readonly]]` per line; `#` starts a comment line.
    ///
    /// # Errors
    /// What is wrong, with the number of the line and without its text.
    pub fn file(text: &str) -> Result<Vec<Self>, String> {
        let lines = text.lines().enumerate().map(|(n, line)| (n + 1, line.trim()));
        let tokens = lines
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
            .map(|(n, line)| Self::line(line).map_err(|why| format!("line {n}: {why}")))
            .collect::<Result<Vec<_>, _>>()?;
        if tokens.is_empty() {
            return Err("no token in it: write one per line, `TOKEN [PROJECT [readonly]]`".into());
        }
        Ok(tokens)
    }

    fn line(line: &str) -> Result<Self, String> {
        let mut words = line.split_whitespace();
        let mut token = Self::new(words.next().unwrap_or_default());
        if let Some(project) = words.next() {
            token = token.of(project);
        }
        token.read_only = match words.next() {
            None => false,
            Some("readonly") => true,
            Some(_) => return Err("the third word may only be `readonly`".into()),
        };
        match words.next() {
            None => Ok(token),
            Some(_) => Err("more than three words".into()),
        }
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Token(of {})", self.project)
    }
}
