//! Regular expressions as Go's RE2 reads them, on top of the `regex` crate.
//!
//! The two dialects differ in what is Unicode, in nested classes and in a lone `{`; only those
//! differences are translated.

use regex::Regex;

/// A schema's `pattern`.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// As written; messages quote it.
    pub source: String,
    regex: Option<Regex>,
}

impl Pattern {
    /// Compiles a pattern; one that does not compile matches nothing.
    #[must_use]
    pub fn new(source: &str) -> Self {
        Self {
            source: source.to_owned(),
            regex: compile(source),
        }
    }

    /// Whether the expression is a valid one.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.regex.is_some()
    }

    /// Whether some part of `text` matches.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        self.regex.as_ref().is_some_and(|regex| regex.is_match(text))
    }
}

/// Compiles an expression written for Go.
#[must_use]
pub fn compile(source: &str) -> Option<Regex> {
    Regex::new(&translate(source)).ok()
}

/// Go's complaint about an expression that does not compile, for the mistakes people make.
#[must_use]
pub fn complaint(source: &str) -> String {
    let (mut open, mut in_class, mut escaped) = (0_i32, None, false);
    let mut problem = None;
    for (at, c) in source.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ']' if in_class.is_some() => in_class = None,
            _ if in_class.is_some() => {}
            '[' => in_class = Some(at),
            '(' => open += 1,
            ')' if open == 0 => problem = Some(format!("unexpected ): `{source}`")),
            ')' => open -= 1,
            '*' | '+' | '?' if at == 0 || source[..at].ends_with(['(', '|']) => {
                problem = Some(format!("missing argument to repetition operator: `{c}`"));
            }
            _ => {}
        }
    }
    let unclosed = in_class.map(|at| format!("missing closing ]: `{}`", &source[at..]));
    let trailing = escaped.then(|| "trailing backslash at end of expression: ``".to_owned());
    let missing = (open > 0).then(|| format!("missing closing ): `{source}`"));
    let found = unclosed.or(problem).or(trailing).or(missing);
    format!(
        "error parsing regexp: {}",
        found.unwrap_or_else(|| format!("invalid escape sequence: `{source}`"))
    )
}

fn translate(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut out = String::with_capacity(source.len() + 8);
    let mut in_class = false;
    let mut at = 0;
    while at < chars.len() {
        let next = chars.get(at + 1).copied();
        match chars[at] {
            '\\' => {
                push_escape(&mut out, next, in_class);
                at += 2;
                continue;
            }
            '[' if in_class && next != Some(':') => out.push_str("\\["),
            '[' if !in_class => {
                in_class = true;
                at += push_class_start(&mut out, &chars[at..]);
                continue;
            }
            '[' => at += push_posix_class(&mut out, &chars[at..]) - 1,
            ']' => {
                in_class = false;
                out.push(']');
            }
            c @ ('&' | '~') if in_class => {
                out.push('\\');
                out.push(c);
            }
            '-' if in_class && next == Some('-') => out.push_str("\\-"),
            '{' if !in_class && !is_repetition(&chars[at..]) => out.push_str("\\{"),
            c => out.push(c),
        }
        at += 1;
    }
    out
}

/// `[`, `[^` and a `]` that comes first, which stands for itself.
fn push_class_start(out: &mut String, rest: &[char]) -> usize {
    out.push('[');
    let mut taken = 1;
    if rest.get(taken) == Some(&'^') {
        out.push('^');
        taken += 1;
    }
    if rest.get(taken) == Some(&']') {
        out.push_str("\\]");
        taken += 1;
    }
    taken
}

/// `[:alpha:]` inside a class.
fn push_posix_class(out: &mut String, rest: &[char]) -> usize {
    let end = rest.iter().position(|c| *c == ']').map_or(rest.len(), |end| end + 1);
    out.extend(&rest[..end]);
    end
}

fn push_escape(out: &mut String, escaped: Option<char>, in_class: bool) {
    match escaped {
        Some('d') => out.push_str("[0-9]"),
        Some('D') => out.push_str("[^0-9]"),
        Some('w') => out.push_str("[0-9A-Za-z_]"),
        Some('W') => out.push_str("[^0-9A-Za-z_]"),
        Some('s') => out.push_str("[\\t\\n\\x0C\\r ]"),
        Some('S') => out.push_str("[^\\t\\n\\x0C\\r ]"),
        Some('b') if !in_class => out.push_str("(?-u:\\b)"),
        Some('B') if !in_class => out.push_str("(?-u:\\B)"),
        Some(c @ ('<' | '>')) => out.push(c),
        Some(c) => {
            out.push('\\');
            out.push(c);
        }
        None => out.push('\\'),
    }
}

fn is_repetition(rest: &[char]) -> bool {
    let Some(end) = rest.iter().position(|c| *c == '}') else {
        return false;
    };
    let body: String = rest[1..end].iter().collect();
    let (low, high) = body.split_once(',').unwrap_or((&body, ""));
    let digits = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    !low.is_empty() && digits(low) && digits(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_ascii_as_in_re2() {
        assert!(compile(r"^\d+$").is_some_and(|r| r.is_match("12") && !r.is_match("١٢")));
        assert!(compile(r"^[\w.-]+$").is_some_and(|r| r.is_match("a_1.b-c")));
    }

    #[test]
    fn a_bracket_inside_a_class_is_a_character() {
        assert!(compile(r"^[[a]$").is_some_and(|r| r.is_match("[")));
        assert!(compile(r"^[]a]$").is_some_and(|r| r.is_match("]")));
        assert!(compile(r"^[[:alpha:]x&&y]+$").is_some_and(|r| r.is_match("q&")));
    }

    #[test]
    fn a_lone_brace_is_a_character() {
        assert!(compile(r"^a{b}$").is_some_and(|r| r.is_match("a{b}")));
        assert!(compile(r"^a{2,3}$").is_some_and(|r| r.is_match("aaa") && !r.is_match("a")));
    }
}
