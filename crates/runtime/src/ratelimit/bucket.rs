//! Tokens up to a cap. Never below nothing, never above the cap.

/// What rounding may take from a whole token.
const ROUNDING: f64 = 1e-6;

#[derive(Clone, Copy, Debug)]
pub(super) struct TokenBucket {
    level: f64,
    cap: f64,
}

impl TokenBucket {
    pub(super) fn full(cap: f64) -> Self {
        Self { level: cap, cap }
    }

    pub(super) fn level(self) -> f64 {
        self.level
    }

    pub(super) fn cap(self) -> f64 {
        self.cap
    }

    pub(super) fn missing(self) -> f64 {
        self.cap - self.level
    }

    pub(super) fn has_token(self) -> bool {
        self.level >= 1.0 - ROUNDING
    }

    /// Takes what fits and gives back the rest.
    pub(super) fn fill(&mut self, amount: f64) -> f64 {
        let fits = amount.min(self.missing());
        self.level += fits;
        amount - fits
    }

    pub(super) fn take_token(&mut self) {
        self.level = (self.level - 1.0).max(0.0);
    }

    /// Gives up to `amount` away and says what is still to be given.
    pub(super) fn drain(&mut self, amount: f64) -> f64 {
        let given = amount.min(self.level);
        self.level -= given;
        amount - given
    }
}
