//! One expression outside a schema, as admission policies have them: compiled under variables that
//! the caller declares, evaluated under values that the caller gives. Knows no policy.

use super::ast::Node;
use super::eval::{self, Outcome};
use super::program::bad_literal;
use super::types::Type;
use super::value::Val;
use super::{check, parser, source};

/// An expression that compiled.
#[derive(Debug)]
pub(crate) struct Expression {
    node: Node,
    pub(crate) output: Type,
}

/// Why an expression does not compile.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Mistake {
    /// It is wrong.
    Invalid(String),
    /// The compiler took it and the interpreter does not.
    Internal(String),
}

impl Mistake {
    pub(crate) fn text(&self) -> &str {
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
    pub(crate) fn compile(
        source: &str,
        variables: &[(&str, Type)],
        wanted: &[Type],
    ) -> Result<Self, Mistake> {
        let failed = |issues| {
            let report = source::report(source, issues);
            Mistake::Invalid(format!("compilation failed: {report}"))
        };
        let node = parser::parse(source).map_err(failed)?;
        let output = check::check(&node, variables).map_err(failed)?;
        if !wanted.is_empty() && !wanted.contains(&output) {
            return Err(Mistake::Invalid(unwanted(wanted, &output)));
        }
        match node.find_map(&bad_literal) {
            Some(why) => Err(Mistake::Internal(format!(
                "program instantiation failed: {why}"
            ))),
            None => Ok(Self { node, output }),
        }
    }

    /// Evaluates, and says what that cost.
    pub(crate) fn evaluate(&self, variables: Vec<(String, Val)>) -> (Outcome, u64) {
        let (outcome, cost) = eval::measure(&self.node, variables);
        (outcome, cost.into())
    }
}

fn unwanted(wanted: &[Type], output: &Type) -> String {
    let names: Vec<String> = wanted.iter().map(Type::declared_name).collect();
    let output = output.declared_name();
    match names.as_slice() {
        [only] => format!("must evaluate to {only} but got {output}"),
        many => format!(
            "must evaluate to one of [{}] but got {output}",
            many.join(" ")
        ),
    }
}
