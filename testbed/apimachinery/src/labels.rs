//! Label selectors: `a=b,c in (d,e),!f`, parsed with the server's grammar and error texts.

use serde_json::{Map, Value};

use super::validation::metadata;
use crate::field::FieldError;

/// One condition of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

/// Conditions that must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<Requirement>);

impl LabelSelector {
    /// Parses the text of a selector.
    ///
    /// # Errors
    /// The server's message.
    pub fn parse(text: &str) -> Result<Self, String> {
        Parser {
            tokens: lex(text),
            at: 0,
        }
        .selector()
        .map(Self)
    }

    /// Whether it selects everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an object's labels satisfy it.
    #[must_use]
    pub fn matches(&self, object: &Value) -> bool {
        self.matches_labels(object.pointer("/metadata/labels").unwrap_or(&Value::Null))
    }

    /// Whether labels satisfy it; anything but an object has none.
    #[must_use]
    pub fn matches_labels(&self, labels: &Value) -> bool {
        let labels = labels.as_object();
        self.0.iter().all(|requirement| requirement.matches(labels))
    }
}

impl Requirement {
    fn matches(&self, labels: Option<&Map<String, Value>>) -> bool {
        let value = labels.and_then(|labels| labels.get(&self.key)).and_then(Value::as_str);
        let holds = |value: &str| self.values.iter().any(|candidate| candidate == value);
        match self.operator {
            Operator::In => value.is_some_and(holds),
            Operator::NotIn => !value.is_some_and(holds),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => self.compares(value, |label, bound| label > bound),
            Operator::LessThan => self.compares(value, |label, bound| label < bound),
        }
    }

    fn compares(&self, value: Option<&str>, holds: fn(i64, i64) -> bool) -> bool {
        let label = value.and_then(|value| value.parse().ok());
        let bound = self.values.first().and_then(|value| value.parse().ok());
        label.zip(bound).is_some_and(|(label, bound)| holds(label, bound))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Symbol(&'static str),
    Word(String),
    Bad(String),
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Symbol(text) => text,
            Self::Word(text) | Self::Bad(text) => text,
            Self::End => "",
        }
    }

    /// `in` and `notin` are words where a value or a key is expected.
    fn is_word(&self) -> bool {
        matches!(self, Self::Word(_) | Self::Symbol("in" | "notin"))
    }
}

const SYMBOLS: [&str; 9] = [")", ",", "!", "==", "=", ">", "<", "!=", "("];

fn lex(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let Some(first) = rest.chars().next() else {
            tokens.push(Token::End);
            return tokens;
        };
        let (token, length) = if is_special(first) {
            symbol(rest)
        } else {
            read_word(rest)
        };
        tokens.push(token);
        rest = &rest[length..];
    }
}

fn is_special(c: char) -> bool {
    "=!(),><".contains(c)
}

/// The longest run of special characters that is a symbol, as the server's lexer finds it.
fn symbol(rest: &str) -> (Token, usize) {
    let two = rest.get(..2).unwrap_or_default();
    let found = SYMBOLS.iter().find(|s| **s == two);
    let found = found.or_else(|| SYMBOLS.iter().find(|s| **s == &rest[..1]));
    match found {
        Some(symbol) => (Token::Symbol(symbol), symbol.len()),
        None => (Token::Bad(format!("error expected: keyword found '{}'", &rest[..1])), 1),
    }
}

fn read_word(rest: &str) -> (Token, usize) {
    let ends = |c: char| is_special(c) || matches!(c, ' ' | '\t' | '\r' | '\n');
    let text = &rest[..rest.find(ends).unwrap_or(rest.len())];
    let token = match text {
        "in" => Token::Symbol("in"),
        "notin" => Token::Symbol("notin"),
        other => Token::Word(other.to_owned()),
    };
    (token, text.len())
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn look(&self) -> &Token {
        self.tokens.get(self.at).unwrap_or(&Token::End)
    }

    fn take(&mut self) -> Token {
        let token = self.look().clone();
        self.at += 1;
        token
    }

    fn selector(mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            let next = self.look();
            if *next == Token::End {
                return Ok(requirements);
            }
            if !next.is_word() && *next != Token::Symbol("!") {
                return Err(format!(
                    "found '{}', expected: !, identifier, or 'end of string'",
                    next.text()
                ));
            }
            let requirement = self
                .requirement()
                .map_err(|e| format!("unable to parse requirement: {e}"))?;
            requirements.push(requirement);
            match self.take() {
                Token::End => return Ok(requirements),
                Token::Symbol(",") => {
                    let next = self.look();
                    if !next.is_word() && *next != Token::Symbol("!") {
                        return Err(format!("found '{}', expected: identifier after ','", next.text()));
                    }
                }
                other => {
                    return Err(format!("found '{}', expected: ',' or 'end of string'", other.text()));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let mut token = self.take();
        let negated = token == Token::Symbol("!");
        if negated {
            token = self.take();
        }
        if !token.is_word() {
            return Err(format!("found '{}', expected: identifier", token.text()));
        }
        let key = token.text().to_owned();
        let errors = metadata::label_key(&key);
        if !errors.is_empty() {
            return Err(FieldError::invalid("<nil>", key, errors.join("; ")).message());
        }
        let ended = matches!(self.look(), Token::End | Token::Symbol(","));
        if negated || ended {
            let operator = if negated {
                Operator::DoesNotExist
            } else {
                Operator::Exists
            };
            return Ok(Requirement {
                key,
                operator,
                values: Vec::new(),
            });
        }
        let (operator, values) = self.operator_and_values()?;
        validate(&key, operator, &values)?;
        Ok(Requirement { key, operator, values })
    }

    fn operator_and_values(&mut self) -> Result<(Operator, Vec<String>), String> {
        let token = self.take();
        let operator = match token {
            Token::Symbol("in" | "=" | "==") => Operator::In,
            Token::Symbol("notin" | "!=") => Operator::NotIn,
            Token::Symbol(">") => Operator::GreaterThan,
            Token::Symbol("<") => Operator::LessThan,
            other => {
                let expected = "in, notin, =, ==, !=, gt, lt";
                return Err(format!("found '{}', expected: {expected}", other.text()));
            }
        };
        let mut values = match token {
            Token::Symbol("in" | "notin") => self.values()?,
            _ => vec![self.exact_value()?],
        };
        values.sort();
        values.dedup();
        Ok((operator, values))
    }

    fn exact_value(&mut self) -> Result<String, String> {
        if matches!(self.look(), Token::End | Token::Symbol(",")) {
            return Ok(String::new());
        }
        let token = self.take();
        if token.is_word() {
            return Ok(token.text().to_owned());
        }
        Err(format!("found '{}', expected: identifier", token.text()))
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        let open = self.take();
        if open != Token::Symbol("(") {
            return Err(format!("found '{}' expected: '('", open.text()));
        }
        let next = self.look();
        if *next == Token::Symbol(")") {
            self.at += 1;
            return Ok(vec![String::new()]);
        }
        if !next.is_word() && *next != Token::Symbol(",") {
            return Err(format!("found '{}', expected: ',', ')' or identifier", next.text()));
        }
        let values = self.identifiers()?;
        self.at += 1;
        Ok(values)
    }

    /// Up to the closing parenthesis, which is left for the caller.
    fn identifiers(&mut self) -> Result<Vec<String>, String> {
        let mut values = Vec::new();
        loop {
            let token = self.take();
            let next = self.look();
            if token.is_word() {
                values.push(token.text().to_owned());
                match next {
                    Token::Symbol(",") => {}
                    Token::Symbol(")") => return Ok(values),
                    other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
                }
            } else if token == Token::Symbol(",") {
                if values.is_empty() || *next == Token::Symbol(",") {
                    values.push(String::new());
                }
                if *next == Token::Symbol(")") {
                    values.push(String::new());
                    return Ok(values);
                }
            } else {
                return Err(format!("found '{}', expected: ',', or identifier", token.text()));
            }
        }
    }
}

fn validate(key: &str, operator: Operator, values: &[String]) -> Result<(), String> {
    let mut errors: Vec<String> = Vec::new();
    for (index, value) in values.iter().enumerate() {
        let compares = matches!(operator, Operator::GreaterThan | Operator::LessThan);
        if compares && value.parse::<i64>().is_err() {
            let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
            errors.push(FieldError::invalid(format!("values[{index}]"), value.as_str(), detail).message());
        }
        let wrong = metadata::label_value(value);
        if !wrong.is_empty() {
            let field = format!("values[{index}][{key}]");
            errors.push(FieldError::invalid(field, value.as_str(), wrong.join("; ")).message());
        }
    }
    match errors.as_slice() {
        [] => Ok(()),
        [only] => Err(only.clone()),
        many => Err(format!("[{}]", many.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_are_the_servers() {
        let cases = [
            ("a===b", "unable to parse requirement: found '=', expected: identifier"),
            ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("!", "unable to parse requirement: found '', expected: identifier"),
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
            (",", "found ',', expected: !, identifier, or 'end of string'"),
            ("a=b,,", "found ',', expected: identifier after ','"),
            ("a=b!", "found '!', expected: ',' or 'end of string'"),
            (
                "a b",
                "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
            ),
            ("a notin", "unable to parse requirement: found '' expected: '('"),
        ];
        for (text, expected) in cases {
            assert_eq!(LabelSelector::parse(text).expect_err(text), expected, "{text}");
        }
    }

    #[test]
    fn selectors_select() {
        let object = json!({"metadata": {"labels": {"a": "b", "n": "5", "in": "x"}}});
        let cases = [
            ("a=b", true),
            ("a==b,n>4", true),
            ("a!=b", false),
            ("zz!=b", true),
            ("a in (c, b)", true),
            ("a notin (c,d),!zz", true),
            ("!a", false),
            ("in", true),
            ("n<5", false),
            ("a in ()", false),
            ("", true),
        ];
        for (text, expected) in cases {
            let selector = LabelSelector::parse(text).expect(text);
            assert_eq!(selector.matches(&object), expected, "{text}");
        }
    }
}
