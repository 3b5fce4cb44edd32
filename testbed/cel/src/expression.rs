//! One expression: compiled under variables that the caller declares, evaluated under values that
//! the caller gives. Knows no policy and no schema.

use super::ast::{Expr, Node};
use super::conversions::from_text;
use super::cost::{self, Declared};
use super::eval::{self, Outcome};
use super::types::Type;
use super::value::Val;
use super::{check, parser, source};

/// An expression that compiled.
#[derive(Debug)]
pub struct Expression {
    node: Node,
    pub output: Type,
}

/// Why an expression does not compile.
#[derive(Clone, Debug, PartialEq)]
pub enum Mistake {
    /// It is wrong.
    Invalid(String),
    /// The compiler took it and the interpreter does not.
    Internal(String),
}

impl Mistake {
    pub fn text(&self) -> &str {
        match self {
            Self::Invalid(text) | Self::Internal(text) => text,
        }
    }
}

impl Expression {
    /// Compiles `source`. One of the types in `wanted` must come out; an empty list allows any.
    ///
    /// # Errors
    /// Every mistake found, in the server's words.
    pub fn compile(source: &str, variables: &[(&str, Type)], wanted: &[Type]) -> Result<Self, Mistake> {
        let (node, output) = checked(source, variables).map_err(Mistake::Invalid)?;
        if !wanted.is_empty() && !wanted.contains(&output) {
            return Err(Mistake::Invalid(unwanted(wanted, &output)));
        }
        Self::instantiate(node, output).map_err(Mistake::Internal)
    }

    /// Compiles `source`, of which `wanted` must come out; if something else does, `wrong` says so.
    ///
    /// # Errors
    /// Every mistake found, in the server's words.
    pub fn compile_as(source: &str, variables: &[(&str, Type)], wanted: &Type, wrong: &str) -> Result<Self, String> {
        let (node, output) = checked(source, variables)?;
        if output != *wanted {
            return Err(wrong.to_owned());
        }
        Self::instantiate(node, output)
    }

    fn instantiate(node: Node, output: Type) -> Result<Self, String> {
        match node.find_map(&bad_literal) {
            Some(why) => Err(format!("program instantiation failed: {why}")),
            None => Ok(Self { node, output }),
        }
    }

    /// Whether the variable `name` occurs in it.
    #[must_use]
    pub fn mentions(&self, name: &str) -> bool {
        self.node.mentions(name)
    }

    /// What evaluating it once costs at worst, for values as large as `declared` allows.
    #[must_use]
    pub fn worst_cost(&self, variables: &[(&str, Type)], declared: &Declared) -> u64 {
        cost::estimate(&self.node, variables, declared)
    }

    /// Evaluates within the limit of a rule of a schema.
    pub fn run(&self, variables: Vec<(String, Val)>) -> Outcome {
        eval::evaluate(&self.node, variables)
    }

    /// Evaluates, and says what that cost.
    pub fn evaluate(&self, variables: Vec<(String, Val)>) -> (Outcome, u64) {
        let (outcome, cost) = eval::measure(&self.node, variables);
        (outcome, cost.into())
    }
}

fn checked(source: &str, variables: &[(&str, Type)]) -> Result<(Node, Type), String> {
    let failed = |issues| format!("compilation failed: {}", source::report(source, issues));
    let node = parser::parse(source).map_err(failed)?;
    let output = check::check(&node, variables).map_err(failed)?;
    Ok((node, output))
}

/// A conversion of a text that is written out and cannot be converted.
fn bad_literal(node: &Node) -> Option<String> {
    match &node.expr {
        Expr::Call {
            function,
            target: None,
            args,
        } => match args.as_slice() {
            [
                Node {
                    expr: Expr::Literal(Val::String(text)),
                    ..
                },
            ] => from_text(function, text)?.err(),
            _ => None,
        },
        _ => None,
    }
}

fn unwanted(wanted: &[Type], output: &Type) -> String {
    let names: Vec<String> = wanted.iter().map(Type::declared_name).collect();
    let output = output.declared_name();
    match names.as_slice() {
        [only] => format!("must evaluate to {only} but got {output}"),
        many => format!("must evaluate to one of [{}] but got {output}", many.join(" ")),
    }
}
