//! One rule, compiled for the schema node it stands at.

use serde_json::Value;

use aplomb_cel::{Expression, Outcome, Type, Val};

use super::{convert, declared, types};
use crate::crd::selectable;
use crate::crd::structural::{Rule, Structural};

const MAX_MESSAGE_BYTES: usize = 5 * 1024;

/// A rule and what it compiled to.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(super) rule: Rule,
    /// The expression, or why it does not compile. Nothing for an empty rule.
    pub(crate) program: Result<Option<Program>, String>,
    /// Why the message expression does not compile.
    pub(crate) message_error: Option<String>,
    message: Option<Expression>,
    /// The field a failure is reported at, relative to the node.
    pub(super) field: String,
}

/// An expression that compiled.
#[derive(Debug)]
pub(crate) struct Program {
    expression: Expression,
    pub(crate) uses_old_self: bool,
}

impl Compiled {
    /// Compiles `rule` for values of `schema`.
    pub(crate) fn new(rule: &Rule, schema: &Structural, is_resource: bool) -> Self {
        let variables = variables(rule, schema, is_resource);
        let mut compiled = Self {
            rule: rule.clone(),
            program: Ok(None),
            message_error: None,
            message: None,
            field: selectable::resolve(&rule.field_path, schema, true)
                .map(|(path, _)| path)
                .unwrap_or_default(),
        };
        if rule.rule.trim().is_empty() {
            return compiled;
        }
        let program = Expression::compile_as(
            &rule.rule,
            &variables,
            &Type::Bool,
            "cel expression must evaluate to a bool",
        );
        compiled.program = program.map(|expression| {
            Some(Program {
                uses_old_self: expression.mentions("oldSelf"),
                expression,
            })
        });
        if compiled.program.is_ok() && !rule.message_expression.is_empty() {
            let wrong = "messageExpression must evaluate to a string";
            let text = &rule.message_expression;
            match Expression::compile_as(text, &variables, &Type::String, wrong) {
                Ok(expression) => compiled.message = Some(expression),
                Err(why) if why == wrong => compiled.message_error = Some(why),
                Err(why) => compiled.message_error = Some(format!("messageExpression {why}")),
            }
        }
        compiled
    }

    /// What the rule costs at worst if there are `cardinality` values of the node (as many as fit
    /// into a request unless told), and what its message costs.
    pub(crate) fn costs(&self, schema: &Structural, is_resource: bool, cardinality: Option<u64>) -> (u64, Option<u64>) {
        let (Ok(Some(program)), Some(declared)) = (&self.program, declared::limits(schema, is_resource)) else {
            return (0, None);
        };
        let variables = variables(&self.rule, schema, is_resource);
        let estimate = |it: &Expression| it.worst_cost(&variables, &declared);
        let times = cardinality.unwrap_or_else(|| declared.cardinality());
        let own = estimate(&program.expression).saturating_mul(times);
        (own, self.message.as_ref().map(estimate))
    }

    /// What a failure says: the message expression if it gives a usable text, else the message.
    pub(super) fn detail(&self, scope: &Scope) -> String {
        let evaluated = self
            .message
            .as_ref()
            .and_then(|message| match message.run(scope.variables()) {
                Ok(Val::String(text)) => Some(text.trim().to_owned()),
                _ => None,
            });
        let usable = |text: &String| !text.is_empty() && text.len() <= MAX_MESSAGE_BYTES && !text.contains('\n');
        evaluated
            .filter(usable)
            .unwrap_or_else(|| match self.rule.message.trim() {
                "" => format!("failed rule: {}", self.rule.rule.trim()),
                message => message.to_owned(),
            })
    }

    /// How messages about the rule itself name it.
    pub(super) fn name(&self) -> &str {
        match self.rule.message.trim() {
            "" => self.rule.rule.trim(),
            message => message,
        }
    }
}

impl Program {
    pub(super) fn run(&self, scope: &Scope) -> Outcome {
        self.expression.run(scope.variables())
    }
}

/// `self` and `oldSelf` of a rule, as far as rules can see them.
fn variables(rule: &Rule, schema: &Structural, is_resource: bool) -> Vec<(&'static str, Type)> {
    let this = types::of_schema(schema, "selfType", is_resource);
    let old = this.clone().map(|kind| match rule.optional_old_self {
        true => Type::optional(kind),
        false => kind,
    });
    [("self", this), ("oldSelf", old)]
        .into_iter()
        .filter_map(|(name, kind)| Some((name, kind?)))
        .collect()
}

/// `self` and `oldSelf` of one evaluation.
pub(super) struct Scope {
    pub(super) this: Val,
    pub(super) old: Option<Val>,
}

impl Scope {
    pub(super) fn new(value: &Value, old: Option<&Value>, schema: &Structural) -> Self {
        let convert = |value: &Value| convert::convert(value, schema);
        Self {
            this: convert(value),
            old: old.map(convert),
        }
    }

    /// The same with `oldSelf` an optional.
    pub(super) fn with_optional_old(&self) -> Self {
        let old = Val::Optional(self.old.clone().map(Box::new));
        Self {
            this: self.this.clone(),
            old: Some(old),
        }
    }

    fn variables(&self) -> Vec<(String, Val)> {
        let mut variables = vec![("self".to_owned(), self.this.clone())];
        variables.extend(self.old.clone().map(|old| ("oldSelf".to_owned(), old)));
        variables
    }
}
