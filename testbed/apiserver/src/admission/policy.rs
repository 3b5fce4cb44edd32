//! A stored policy with its expressions compiled, and a stored binding as far as it is read.

use std::sync::Arc;

use serde_json::Value;

use aplomb_apimachinery::object;
use aplomb_builtin_kinds::{Compiler, Wanted};
use aplomb_cel::{Expression, Mistake};

/// An expression, whether it compiled or not.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) source: String,
    pub(super) compiled: Result<Expression, Mistake>,
}

/// A named expression of `spec.variables`.
#[derive(Debug)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) compiled: Result<Expression, Mistake>,
}

/// One item of `spec.validations`.
#[derive(Debug)]
pub(super) struct Validation {
    pub(super) program: Program,
    pub(super) message: String,
    pub(super) message_program: Option<Program>,
    pub(super) reason: &'static str,
}

/// Everything a policy says.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) name: String,
    /// Whether what goes wrong refuses the request.
    pub(super) fails: bool,
    /// `apiVersion` and `kind` of its parameters.
    pub(super) param_kind: Option<(String, String)>,
    pub(super) constraints: Value,
    pub(super) conditions: Vec<Program>,
    pub(super) variables: Arc<Vec<Variable>>,
    pub(super) validations: Vec<Validation>,
    /// Keys of audit annotations and their values.
    pub(super) annotations: Vec<(String, Program)>,
}

/// Everything a binding says.
#[derive(Debug)]
pub(super) struct Binding {
    pub(super) name: String,
    pub(super) resources: Option<Value>,
    pub(super) param_ref: Option<Value>,
    pub(super) actions: Vec<String>,
}

/// A policy and its bindings, which are never none.
#[derive(Debug)]
pub(super) struct Hook {
    pub(super) policy: Policy,
    pub(super) bindings: Vec<Binding>,
}

fn items<'a>(spec: &'a Value, member: &str) -> &'a [Value] {
    spec[member].as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value, member: &str) -> String {
    object::text(value, member).to_owned()
}

impl Policy {
    /// Reads and compiles a stored policy.
    pub(super) fn of(stored: &Value) -> Self {
        let spec = &stored["spec"];
        let param_kind = spec
            .get("paramKind")
            .filter(|kind| kind.is_object())
            .map(|kind| (text(kind, "apiVersion"), text(kind, "kind")));
        let mut compiler = Compiler::composing(param_kind.is_some());
        let mut variables = Vec::new();
        for variable in items(spec, "variables") {
            let name = text(variable, "name");
            let compiled = compiler.add_variable(&name, object::text(variable, "expression"));
            variables.push(Variable { name, compiled });
        }
        let program = |source: String, wanted, authorizer| Program {
            compiled: compiler.compile(&source, wanted, authorizer),
            source,
        };
        let validation = |item: &Value| Validation {
            program: program(text(item, "expression"), Wanted::Bool, true),
            message: text(item, "message"),
            message_program: Some(text(item, "messageExpression"))
                .filter(|source| !source.is_empty())
                .map(|source| program(source, Wanted::Text, false)),
            reason: reason(object::text(item, "reason")),
        };
        let annotation = |item: &Value| {
            let value = program(text(item, "valueExpression"), Wanted::TextOrNull, true);
            (text(item, "key"), value)
        };
        Self {
            name: object::name(stored).to_owned(),
            fails: object::text(spec, "failurePolicy") != "Ignore",
            constraints: spec["matchConstraints"].clone(),
            conditions: items(spec, "matchConditions")
                .iter()
                .map(|item| program(text(item, "expression"), Wanted::Bool, true))
                .collect(),
            validations: items(spec, "validations").iter().map(validation).collect(),
            annotations: items(spec, "auditAnnotations").iter().map(annotation).collect(),
            variables: Arc::new(variables),
            param_kind,
        }
    }
}

/// The reasons a validation may give.
fn reason(stated: &str) -> &'static str {
    match stated {
        "Forbidden" => "Forbidden",
        "Unauthorized" => "Unauthorized",
        "RequestEntityTooLarge" => "RequestEntityTooLarge",
        _ => "Invalid",
    }
}

impl Binding {
    /// Reads a stored binding.
    pub(super) fn of(stored: &Value) -> Self {
        let spec = &stored["spec"];
        let part = |member: &str| spec.get(member).filter(|part| part.is_object()).cloned();
        Self {
            name: object::name(stored).to_owned(),
            resources: part("matchResources"),
            param_ref: part("paramRef"),
            actions: items(spec, "validationActions")
                .iter()
                .filter_map(|action| action.as_str().map(str::to_owned))
                .collect(),
        }
    }
}
