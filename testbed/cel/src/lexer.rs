//! Tokens of an expression.

use super::source::Issue;

/// One token and where it starts, in characters.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) at: usize,
    pub(super) text: String,
}

/// What a token is. Names of operators stand for themselves in `text`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TokenKind {
    Identifier,
    Int(i64),
    Uint(u64),
    Double(f64),
    String(String),
    Bytes(Vec<u8>),
    Operator,
    End,
}

const OPERATORS: [&str; 26] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",", "(", ")", "[", "]",
    "{", "}", "in", ";",
];

/// Splits a source into tokens; what is no token is an issue and is passed over.
pub(super) fn tokenize(source: &str) -> (Vec<Token>, Vec<Issue>) {
    let mut lexer = Lexer {
        chars: source.chars().collect(),
        at: 0,
        tokens: Vec::new(),
        issues: Vec::new(),
    };
    lexer.run();
    (lexer.tokens, lexer.issues)
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
    tokens: Vec<Token>,
    issues: Vec<Issue>,
}

impl Lexer {
    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn run(&mut self) {
        while self.at < self.chars.len() {
            let c = self.peek(0);
            if c.is_whitespace() {
                self.at += 1;
            } else if c == '/' && self.peek(1) == '/' {
                while self.at < self.chars.len() && self.peek(0) != '\n' {
                    self.at += 1;
                }
            } else {
                self.token(c);
            }
        }
        self.tokens.push(Token {
            kind: TokenKind::End,
            at: self.chars.len(),
            text: "<EOF>".to_owned(),
        });
    }

    fn token(&mut self, c: char) {
        let start = self.at;
        if let Some(length) = self.string_prefix() {
            self.string(start, length);
        } else if c.is_ascii_alphabetic() || c == '_' {
            while self.peek(0).is_ascii_alphanumeric() || self.peek(0) == '_' {
                self.at += 1;
            }
            self.push(TokenKind::Identifier, start);
        } else if c.is_ascii_digit() || (c == '.' && self.peek(1).is_ascii_digit()) {
            self.number(start);
        } else if let Some(operator) = OPERATORS.iter().find(|op| self.starts_with(op)) {
            self.at += operator.len();
            self.push(TokenKind::Operator, start);
        } else {
            self.unrecognized(start);
        }
    }

    fn starts_with(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(index, c)| self.peek(index) == c)
    }

    fn push(&mut self, kind: TokenKind, start: usize) {
        let text: String = self.chars[start..self.at].iter().collect();
        let kind = if text == "in" { TokenKind::Operator } else { kind };
        self.tokens.push(Token { kind, at: start, text });
    }

    /// A lone `=`, `&` or `|` takes the character after it along, as the server's lexer does.
    fn unrecognized(&mut self, start: usize) {
        let doubled = matches!(self.peek(0), '=' | '&' | '|');
        let length = if doubled && self.at + 1 < self.chars.len() {
            2
        } else {
            1
        };
        self.at += length;
        let text: String = self.chars[start..self.at].iter().collect();
        self.issues.push(Issue::new(
            start,
            format!("Syntax error: token recognition error at: '{text}'"),
        ));
    }

    /// The length of what comes before a string's opening quote, if a string starts here.
    fn string_prefix(&self) -> Option<usize> {
        (0..=2).find(|length| {
            let mut prefix = (0..*length).map(|i| self.peek(i).to_ascii_lowercase());
            prefix.all(|c| matches!(c, 'r' | 'b')) && matches!(self.peek(*length), '\'' | '"')
        })
    }

    fn number(&mut self, start: usize) {
        if self.peek(0) == '0' && matches!(self.peek(1), 'x' | 'X') {
            self.at += 2;
            while self.peek(0).is_ascii_hexdigit() {
                self.at += 1;
            }
            let digits: String = self.chars[start + 2..self.at].iter().collect();
            return self.integer(start, u64::from_str_radix(&digits, 16).ok());
        }
        let digits = |lexer: &mut Self| {
            while lexer.peek(0).is_ascii_digit() {
                lexer.at += 1;
            }
        };
        digits(self);
        let mut float = false;
        if self.peek(0) == '.' && self.peek(1).is_ascii_digit() {
            float = true;
            self.at += 1;
            digits(self);
        }
        let sign = usize::from(matches!(self.peek(1), '+' | '-'));
        if matches!(self.peek(0), 'e' | 'E') && self.peek(1 + sign).is_ascii_digit() {
            float = true;
            self.at += 1 + sign;
            digits(self);
        }
        let text: String = self.chars[start..self.at].iter().collect();
        if float {
            self.push(TokenKind::Double(text.parse().unwrap_or(f64::NAN)), start);
        } else {
            self.integer(start, text.parse().ok());
        }
    }

    fn integer(&mut self, start: usize, value: Option<u64>) {
        if matches!(self.peek(0), 'u' | 'U') {
            self.at += 1;
            match value {
                Some(value) => self.push(TokenKind::Uint(value), start),
                None => self.issues.push(Issue::new(start, "invalid uint literal")),
            }
            return;
        }
        // The smallest integer is written as the negation of one that does not fit.
        match value.map(|value| (i64::try_from(value), value)) {
            Some((Ok(value), _)) => self.push(TokenKind::Int(value), start),
            Some((Err(_), value)) if value == i64::MIN.unsigned_abs() => self.push(TokenKind::Int(i64::MIN), start),
            _ => self.issues.push(Issue::new(start, "invalid int literal")),
        }
    }

    fn string(&mut self, start: usize, prefix: usize) {
        let flags: String = self.chars[start..start + prefix]
            .iter()
            .collect::<String>()
            .to_lowercase();
        self.at += prefix;
        let quote = self.peek(0);
        let triple = self.peek(1) == quote && self.peek(2) == quote;
        self.at += if triple { 3 } else { 1 };
        let mut bytes = Vec::new();
        loop {
            let c = self.peek(0);
            let ended = c == quote && (!triple || (self.peek(1) == quote && self.peek(2) == quote));
            if ended {
                self.at += if triple { 3 } else { 1 };
                break;
            }
            if self.at >= self.chars.len() || (c == '\n' && !triple) || !self.character(&flags, &mut bytes) {
                self.at = self.at.min(self.chars.len());
                let text: String = self.chars[start..self.at].iter().collect();
                let message = format!("Syntax error: token recognition error at: '{text}'");
                self.issues.push(Issue::new(start, message));
                return;
            }
        }
        let kind = if flags.contains('b') {
            TokenKind::Bytes(bytes)
        } else {
            TokenKind::String(String::from_utf8_lossy(&bytes).into_owned())
        };
        self.push(kind, start);
    }

    /// Takes one character of a string; false for an escape nobody knows.
    fn character(&mut self, flags: &str, out: &mut Vec<u8>) -> bool {
        let c = self.peek(0);
        self.at += 1;
        if c != '\\' || flags.contains('r') {
            out.extend(c.to_string().as_bytes());
            return true;
        }
        let escape = self.peek(0);
        self.at += 1;
        let plain = match escape {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            '\\' | '\'' | '"' | '`' | '?' => escape,
            'x' | 'X' => return self.code(2, 16, flags.contains('b'), out),
            'u' => return self.code(4, 16, false, out),
            'U' => return self.code(8, 16, false, out),
            '0'..='3' => {
                self.at -= 1;
                return self.code(3, 8, flags.contains('b'), out);
            }
            _ => return false,
        };
        out.extend(plain.to_string().as_bytes());
        true
    }

    fn code(&mut self, digits: usize, radix: u32, raw: bool, out: &mut Vec<u8>) -> bool {
        let text: String = (0..digits).map(|i| self.peek(i)).collect();
        self.at += digits;
        match u32::from_str_radix(&text, radix).ok() {
            Some(code) if raw => out.push(u8::try_from(code).unwrap_or(u8::MAX)),
            Some(code) => match char::from_u32(code) {
                Some(c) => out.extend(c.to_string().as_bytes()),
                None => return false,
            },
            None => return false,
        }
        true
    }
}
