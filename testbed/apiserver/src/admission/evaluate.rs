//! One policy over one request with one parameter: what its conditions, validations and audit
//! annotations come to.

use aplomb_apimachinery::object;
use aplomb_cel::{Val, value_of};
use serde_json::{Value, json};

use super::policy::{Policy, Program, Validation};
use super::variables::Variables;

/// What all expressions of a policy may cost for one request and parameter.
const BUDGET: u64 = 10_000_000;
/// What its conditions may cost.
const CONDITION_BUDGET: u64 = 2_500_000;
/// A message longer than this is not used.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// What expressions are evaluated with.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) object: Val,
    pub(super) old: Val,
    pub(super) request: Val,
    /// The request as conditions see it: not as an equivalent one.
    pub(super) plain_request: Val,
    pub(super) params: Val,
    pub(super) authorizer: Val,
    /// The whole namespace, or nothing.
    pub(super) namespace: Value,
}

/// A validation that does not hold, or cannot be evaluated.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Denial {
    /// Which validation.
    pub(super) index: usize,
    pub(super) message: String,
    /// Empty where nothing says why.
    pub(super) reason: &'static str,
}

/// The key of an audit annotation and its value, or why there is none.
pub(super) type Annotation = (String, Result<String, String>);

/// What a policy says.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) denials: Vec<Denial>,
    pub(super) annotations: Vec<Annotation>,
}

impl Verdict {
    /// Something went wrong as a whole.
    fn failed(policy: &Policy, message: String) -> Self {
        let denial = Denial {
            index: 0,
            message,
            reason: "",
        };
        Self {
            denials: Vec::from_iter(policy.fails.then_some(denial)),
            annotations: Vec::new(),
        }
    }
}

/// Evaluates a policy.
pub(super) fn evaluate(policy: &Policy, input: &Input) -> Verdict {
    match conditions_hold(policy, input) {
        Ok(true) => {}
        Ok(false) => return Verdict::default(),
        Err(message) => return Verdict::failed(policy, message),
    }
    let mut budget = BUDGET;
    let denials = match validations(policy, input, &mut budget) {
        Ok(denials) => denials,
        Err(message) => return Verdict::failed(policy, message),
    };
    match annotations(policy, input) {
        Ok(annotations) => Verdict { denials, annotations },
        Err(message) => Verdict::failed(policy, message),
    }
}

/// Expressions that share the values of variables.
struct Round {
    variables: std::sync::Arc<Variables>,
}

impl Round {
    fn new(policy: &Policy, input: &Input, request: &Val, namespace: &Value, asks: bool) -> Self {
        let mut scope = vec![
            ("object".to_owned(), input.object.clone()),
            ("oldObject".to_owned(), input.old.clone()),
            ("request".to_owned(), request.clone()),
            ("params".to_owned(), input.params.clone()),
            ("namespaceObject".to_owned(), value_of(namespace)),
        ];
        if asks {
            scope.push(("authorizer".to_owned(), input.authorizer.clone()));
        }
        Self {
            variables: Variables::new(&policy.variables, scope),
        }
    }

    /// The outer error ends everything, the inner one is that of the expression.
    fn run(&self, program: &Program, budget: &mut u64) -> Result<Result<Val, String>, String> {
        let expression = match &program.compiled {
            Ok(expression) => expression,
            Err(mistake) => return Ok(Err(format!("compilation error: {}", mistake.text()))),
        };
        let (outcome, cost) = expression.evaluate(self.variables.scope());
        let cost = cost.saturating_add(self.variables.take_cost());
        *budget = budget.checked_sub(cost).ok_or_else(|| OUT_OF_BUDGET.to_owned())?;
        let source = &program.source;
        Ok(outcome.map_err(|why| format!("expression '{source}' resulted in error: {why}")))
    }
}

/// Whether the policy is about the request at all. One condition that is false decides.
fn conditions_hold(policy: &Policy, input: &Input) -> Result<bool, String> {
    let round = Round::new(policy, input, &input.plain_request, &Value::Null, true);
    let mut budget = CONDITION_BUDGET;
    let mut outcomes = Vec::new();
    for condition in &policy.conditions {
        match round.run(condition, &mut budget) {
            Ok(outcome) => outcomes.push(outcome),
            Err(_) if !policy.fails => return Ok(false),
            Err(message) => return Err(message),
        }
    }
    let decided = outcomes.iter().any(|outcome| matches!(outcome, Ok(Val::Bool(false))));
    let errors: Vec<String> = outcomes.into_iter().filter_map(Result::err).collect();
    match errors.as_slice() {
        _ if decided => Ok(false),
        [] => Ok(true),
        _ if !policy.fails => Ok(false),
        [only] => Err(only.clone()),
        many => Err(format!("[{}]", unique(many).join(", "))),
    }
}

fn unique(messages: &[String]) -> Vec<&str> {
    let mut unique: Vec<&str> = Vec::new();
    for message in messages {
        if !unique.contains(&message.as_str()) {
            unique.push(message);
        }
    }
    unique
}

fn validations(policy: &Policy, input: &Input, budget: &mut u64) -> Result<Vec<Denial>, String> {
    let namespace = visible_namespace(&input.namespace);
    let round = Round::new(policy, input, &input.request, &namespace, true);
    let mut outcomes = Vec::new();
    for validation in &policy.validations {
        outcomes.push(round.run(&validation.program, budget)?);
    }
    let said = messages(policy, input, &namespace, budget);
    let mut denials = Vec::new();
    for (index, (validation, outcome)) in policy.validations.iter().zip(outcomes).enumerate() {
        let failed = |message| Denial {
            index,
            message,
            reason: "",
        };
        match (outcome, &said) {
            (Err(message), _) => denials.extend(policy.fails.then(|| failed(message))),
            (_, Err(why)) => {
                let message = format!("failed messageExpression: {why}");
                denials.extend(policy.fails.then(|| failed(message)));
            }
            (Ok(Val::Bool(true)), _) => {}
            (_, Ok(said)) => denials.push(Denial {
                index,
                message: message(validation, said[index].as_deref()),
                reason: validation.reason,
            }),
        }
    }
    Ok(denials)
}

/// What the message expressions come to, for every validation.
fn messages(
    policy: &Policy,
    input: &Input,
    namespace: &Value,
    budget: &mut u64,
) -> Result<Vec<Option<String>>, String> {
    let round = Round::new(policy, input, &input.request, namespace, false);
    let mut said = Vec::new();
    for validation in &policy.validations {
        let Some(program) = &validation.message_program else {
            said.push(None);
            continue;
        };
        said.push(match round.run(program, budget)? {
            Ok(Val::String(text)) => Some(text.trim().to_owned()),
            _ => None,
        });
    }
    Ok(said)
}

/// The message expression if it gives a usable text, else the message, else the expression.
fn message(validation: &Validation, said: Option<&str>) -> String {
    let usable = |text: &&str| !text.is_empty() && text.len() <= MAX_MESSAGE_BYTES && !text.contains('\n');
    match (said.filter(usable), validation.message.trim()) {
        (Some(said), _) => said.to_owned(),
        (None, "") => format!("failed expression: {}", validation.program.source.trim()),
        (None, message) => message.to_owned(),
    }
}

fn annotations(policy: &Policy, input: &Input) -> Result<Vec<Annotation>, String> {
    let round = Round::new(policy, input, &input.request, &input.namespace, false);
    let mut budget = BUDGET;
    let mut found = Vec::new();
    for (key, program) in &policy.annotations {
        let value = match round.run(program, &mut budget)? {
            Ok(Val::String(text)) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
            Ok(Val::String(_) | Val::Null) => continue,
            Ok(other) => Err(format!(
                "valueExpression '{}' resulted in unsupported return type: {}. Return type must be either string or null.",
                program.source,
                other.type_name()
            )),
            Err(_) if !policy.fails => continue,
            Err(why) => Err(why),
        };
        found.push((key.clone(), value));
    }
    Ok(found)
}

/// Of a namespace, what validations see.
fn visible_namespace(namespace: &Value) -> Value {
    if !namespace.is_object() {
        return Value::Null;
    }
    let mut metadata = object::metadata(namespace).cloned().unwrap_or_default();
    metadata.retain(|member, _| !matches!(member.as_str(), "managedFields" | "ownerReferences" | "selfLink"));
    json!({ "metadata": metadata, "spec": namespace["spec"], "status": namespace["status"] })
}
