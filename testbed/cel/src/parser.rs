//! From tokens to an expression, macros included.

use super::ast::{Expr, Macro, MacroKind, Node};
use super::lexer::{Token, TokenKind, tokenize};
use super::source::Issue;
use super::value::Val;

const START: &str =
    "'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER";
/// How deep an expression may be nested.
const MAX_DEPTH: usize = 100;

/// Binary operators by how tightly they bind, loosest first, with the names of their functions.
const LEVELS: [&[(&str, &str)]; 5] = [
    &[("||", "_||_")],
    &[("&&", "_&&_")],
    &[
        ("==", "_==_"),
        ("!=", "_!=_"),
        ("<=", "_<=_"),
        (">=", "_>=_"),
        ("<", "_<_"),
        (">", "_>_"),
        ("in", "@in"),
    ],
    &[("+", "_+_"), ("-", "_-_")],
    &[("*", "_*_"), ("/", "_/_"), ("%", "_%_")],
];

/// Parses an expression.
///
/// # Errors
/// Every mistake found; after the first in the grammar the rest is not read.
pub(super) fn parse(source: &str) -> Result<Node, Vec<Issue>> {
    let (tokens, mut issues) = tokenize(source);
    let mut parser = Parser {
        tokens,
        at: 0,
        depth: 0,
    };
    let parsed = parser.expression().and_then(|node| parser.end().map(|()| node));
    match parsed {
        Ok(node) if issues.is_empty() => Ok(node),
        Ok(_) => Err(issues),
        Err(issue) => {
            issues.push(issue);
            Err(issues)
        }
    }
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

type Parsed = Result<Node, Issue>;

impl Parser {
    fn token(&self) -> &Token {
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn is(&self, operator: &str) -> bool {
        self.token().kind == TokenKind::Operator && self.token().text == operator
    }

    fn take(&mut self, operator: &str) -> Option<usize> {
        let at = self.token().at;
        self.is(operator).then(|| {
            self.at += 1;
            at
        })
    }

    fn unexpected(&self, expecting: &str) -> Issue {
        let token = self.token();
        let rest = self.tokens.len().saturating_sub(self.at + 1);
        let kind = if token.kind != TokenKind::End && rest <= 2 {
            "extraneous"
        } else {
            "mismatched"
        };
        Issue::new(
            token.at,
            format!("Syntax error: {kind} input '{}' expecting {expecting}", token.text),
        )
    }

    fn expect(&mut self, operator: &str) -> Result<usize, Issue> {
        let token = self.token();
        let missing = format!("Syntax error: missing '{operator}' at '{}'", token.text);
        let issue = Issue::new(token.at, missing);
        self.take(operator).ok_or(issue)
    }

    fn end(&mut self) -> Result<(), Issue> {
        if self.token().kind == TokenKind::End {
            Ok(())
        } else {
            Err(self.unexpected("<EOF>"))
        }
    }

    fn expression(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Issue::new(self.token().at, "expression recursion limit exceeded"));
        }
        let condition = self.binary(0)?;
        let node = match self.take("?") {
            None => condition,
            Some(at) => {
                let yes = self.binary(0)?;
                self.expect(":")?;
                let no = self.expression()?;
                call(at, "_?_:_", vec![condition, yes, no])
            }
        };
        self.depth -= 1;
        Ok(node)
    }

    fn binary(&mut self, level: usize) -> Parsed {
        let Some(operators) = LEVELS.get(level) else {
            return self.unary();
        };
        let mut left = self.binary(level + 1)?;
        while let Some((operator, function)) = operators.iter().find(|(operator, _)| self.is(operator)) {
            let at = self.take(operator).unwrap_or_default();
            let right = self.binary(level + 1)?;
            left = call(at, function, vec![left, right]);
        }
        Ok(left)
    }

    fn unary(&mut self) -> Parsed {
        let at = self.token().at;
        for (operator, function) in [("!", "!_"), ("-", "-_")] {
            let mut count = 0;
            while self.take(operator).is_some() {
                count += 1;
            }
            if count == 0 {
                continue;
            }
            let operand = self.member()?;
            return Ok(match (&operand.expr, operator) {
                (Expr::Literal(value), "-") if count == 1 => match value.negated() {
                    Some(value) => Node::new(at, Expr::Literal(value)),
                    None => call(at, function, vec![operand]),
                },
                _ if count % 2 == 1 => call(at, function, vec![operand]),
                _ => operand,
            });
        }
        self.member()
    }

    fn member(&mut self) -> Parsed {
        let mut node = self.primary()?;
        loop {
            if let Some(at) = self.take(".") {
                let optional = self.take("?").is_some();
                node = self.selection(node, at, optional)?;
            } else if let Some(at) = self.take("[") {
                let optional = self.take("?").is_some();
                if self.token().kind == TokenKind::End {
                    let all = START.replace("'!',", "'!', '?',");
                    return Err(self.unexpected(&format!("{{{all}}}")));
                }
                let index = self.expression()?;
                self.expect("]")?;
                let function = if optional { "_[?_]" } else { "_[_]" };
                node = call(at, function, vec![node, index]);
            } else if self.is("{") && node.qualified_name().is_some() {
                node = self.structure(&node)?;
            } else {
                return Ok(node);
            }
        }
    }

    fn selection(&mut self, operand: Node, at: usize, optional: bool) -> Parsed {
        let token = self.token().clone();
        if token.kind != TokenKind::Identifier {
            let message = format!("Syntax error: no viable alternative at input '.{}'", token.text);
            return Err(Issue::new(token.at, message));
        }
        self.at += 1;
        if optional || !self.is("(") {
            return Ok(Node::new(
                at,
                Expr::Select {
                    operand: Box::new(operand),
                    field: token.text,
                    optional,
                },
            ));
        }
        let open = self.expect("(")?;
        let args = self.arguments(")")?;
        Ok(member_call(open, &token.text, operand, args))
    }

    fn structure(&mut self, name: &Node) -> Parsed {
        let at = self.expect("{")?;
        while !self.is("}") && self.token().kind != TokenKind::End {
            self.at += 1;
        }
        self.expect("}")?;
        Ok(Node::new(
            at,
            Expr::Struct {
                name: name.qualified_name().unwrap_or_default(),
            },
        ))
    }

    fn arguments(&mut self, close: &str) -> Result<Vec<Node>, Issue> {
        let mut args = Vec::new();
        while !self.is(close) {
            let begin = self.token().at;
            let argument = self.expression();
            args.push(argument.map_err(|issue| match args.is_empty() && issue.at == begin {
                true => or_close(&issue),
                false => issue,
            })?);
            if self.take(",").is_none() {
                break;
            }
        }
        self.expect(close)?;
        Ok(args)
    }

    fn primary(&mut self) -> Parsed {
        let token = self.token().clone();
        let literal = |value: Val| Ok(Node::new(token.at, Expr::Literal(value)));
        self.at += 1;
        match (&token.kind, token.text.as_str()) {
            (TokenKind::Int(value), _) => literal(Val::Int(*value)),
            (TokenKind::Uint(value), _) => literal(Val::Uint(*value)),
            (TokenKind::Double(value), _) => literal(Val::Double(*value)),
            (TokenKind::String(value), _) => literal(Val::text(value)),
            (TokenKind::Bytes(value), _) => literal(Val::Bytes(value.clone())),
            (TokenKind::Identifier, "true") => literal(Val::Bool(true)),
            (TokenKind::Identifier, "false") => literal(Val::Bool(false)),
            (TokenKind::Identifier, "null") => literal(Val::Null),
            (TokenKind::Identifier, _) if self.is("(") => self.global_call(&token.text),
            (TokenKind::Identifier, _) => Ok(Node::new(token.at, Expr::Ident(token.text.clone()))),
            (TokenKind::Operator, "(") => {
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            (TokenKind::Operator, "[") => self.list(token.at),
            (TokenKind::Operator, "{") => self.map(token.at),
            (TokenKind::Operator, ".") if self.token().kind == TokenKind::Identifier => self.primary(),
            _ => {
                self.at -= 1;
                Err(self.unexpected(&format!("{{{START}}}")))
            }
        }
    }

    fn global_call(&mut self, name: &str) -> Parsed {
        let open = self.expect("(")?;
        let mut args = self.arguments(")")?;
        if name != "has" || args.len() != 1 {
            return Ok(call(open, name, args));
        }
        match args.pop().map(|arg| arg.expr) {
            Some(Expr::Select {
                operand,
                field,
                optional: false,
            }) => Ok(Node::new(open, Expr::Has { operand, field })),
            _ => Err(Issue::new(open, "invalid argument to has() macro")),
        }
    }

    fn list(&mut self, at: usize) -> Parsed {
        let mut items = Vec::new();
        while !self.is("]") {
            let optional = self.take("?").is_some();
            items.push((self.expression()?, optional));
            if self.take(",").is_none() {
                break;
            }
        }
        self.expect("]")?;
        Ok(Node::new(at, Expr::List(items)))
    }

    fn map(&mut self, at: usize) -> Parsed {
        let mut entries = Vec::new();
        while !self.is("}") {
            let optional = self.take("?").is_some();
            let key = self.expression()?;
            self.expect(":")?;
            entries.push((key, self.expression()?, optional));
            if self.take(",").is_none() {
                break;
            }
        }
        self.expect("}")?;
        Ok(Node::new(at, Expr::Map(entries)))
    }
}

/// Where arguments begin, there may also be none.
fn or_close(issue: &Issue) -> Issue {
    let with_close = START.replace("'(', ", "'(', ')', ");
    Issue::new(issue.at, issue.message.replace(START, &with_close))
}

fn call(at: usize, function: &str, args: Vec<Node>) -> Node {
    Node::new(
        at,
        Expr::Call {
            function: function.to_owned(),
            target: None,
            args,
        },
    )
}

/// A member call, or the macro it stands for when its variables are names.
fn member_call(at: usize, function: &str, target: Node, args: Vec<Node>) -> Node {
    match expand(function, &target, &args) {
        Some(inner) => Node::new(at, Expr::Macro(Box::new(inner))),
        None => {
            let target = Some(Box::new(target));
            Node::new(
                at,
                Expr::Call {
                    function: function.to_owned(),
                    target,
                    args,
                },
            )
        }
    }
}

fn expand(function: &str, target: &Node, args: &[Node]) -> Option<Macro> {
    let (kind, vars, has_condition) = macro_of(function, args.len())?;
    let name = |node: &Node| match &node.expr {
        Expr::Ident(name) => Some(name.clone()),
        _ => None,
    };
    let var = name(args.first()?)?;
    let var2 = if vars == 2 { Some(name(&args[1])?) } else { None };
    let condition = has_condition.then(|| args[vars].clone());
    Some(Macro {
        kind,
        range: target.clone(),
        var,
        var2,
        condition,
        body: args.last()?.clone(),
    })
}

/// The macro of that name with that many arguments: how many of them are variables, and whether a
/// condition follows these.
fn macro_of(function: &str, arguments: usize) -> Option<(MacroKind, usize, bool)> {
    use MacroKind as M;
    Some(match (function, arguments) {
        ("all", 2) => (M::All, 1, false),
        ("all", 3) => (M::All, 2, false),
        ("exists", 2) => (M::Exists, 1, false),
        ("exists", 3) => (M::Exists, 2, false),
        ("exists_one" | "existsOne", 2) => (M::ExistsOne, 1, false),
        ("existsOne", 3) => (M::ExistsOne, 2, false),
        ("map", 2) => (M::Map, 1, false),
        ("map", 3) => (M::Map, 1, true),
        ("filter", 2) => (M::Filter, 1, false),
        ("sortBy", 2) => (M::SortBy, 1, false),
        ("transformList", 3) => (M::TransformList, 2, false),
        ("transformList", 4) => (M::TransformList, 2, true),
        ("transformMap", 3) => (M::TransformMap, 2, false),
        ("transformMap", 4) => (M::TransformMap, 2, true),
        ("transformMapEntry", 3) => (M::TransformMapEntry, 2, false),
        ("transformMapEntry", 4) => (M::TransformMapEntry, 2, true),
        ("optMap", 2) => (M::OptMap, 1, false),
        ("optFlatMap", 2) => (M::OptFlatMap, 1, false),
        _ => return None,
    })
}
