//! Evaluation. Errors are the texts the server's runtime gives.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ast::{Expr, Macro, MacroKind, Node};
use super::escape::reserved;
use super::functions;
use super::value::{Key, Val};

/// The outcome of an evaluation.
pub type Outcome = Result<Val, String>;

/// What stands where no function takes the values given.
pub const NO_OVERLOAD: &str = "no such overload";

/// What stops an expression that takes too long.
pub const COST_EXCEEDED: &str = "operation cancelled: actual cost limit exceeded";

/// Steps one expression may take.
const COST_LIMIT: u32 = 1_000_000;

/// Evaluates an expression under `variables`.
pub(super) fn evaluate(node: &Node, variables: Vec<(String, Val)>) -> Outcome {
    measure(node, variables).0
}

/// The same, and what it cost.
pub(super) fn measure(node: &Node, variables: Vec<(String, Val)>) -> (Outcome, u32) {
    let mut evaluation = Evaluation {
        scope: variables,
        cost: 0,
    };
    let outcome = evaluation.node(node);
    if evaluation.cost > COST_LIMIT {
        (Err(COST_EXCEEDED.to_owned()), evaluation.cost)
    } else {
        (outcome, evaluation.cost)
    }
}

struct Evaluation {
    scope: Vec<(String, Val)>,
    cost: u32,
}

impl Evaluation {
    fn node(&mut self, node: &Node) -> Outcome {
        self.cost += 1;
        if self.cost > COST_LIMIT {
            self.cost = COST_LIMIT + 1;
            return Err(COST_EXCEEDED.to_owned());
        }
        match self.evaluate(node)? {
            Val::Invalid(why) => Err(why.to_string()),
            value => Ok(value),
        }
    }

    fn evaluate(&mut self, node: &Node) -> Outcome {
        match &node.expr {
            Expr::Literal(value) => Ok(value.clone()),
            Expr::Ident(name) => Ok(self.variable(name)),
            Expr::Select {
                operand,
                field,
                optional,
            } => {
                let operand = self.node(operand)?;
                if *optional {
                    select_optional(&operand, field)
                } else {
                    select(&operand, field)
                }
            }
            Expr::Has { operand, field } => has(&self.node(operand)?, field),
            Expr::Call { function, target, args } => self.call(function, target.as_deref(), args),
            Expr::List(items) => self.list(items),
            Expr::Map(entries) => self.map(entries),
            Expr::Struct { .. } => Err(NO_OVERLOAD.to_owned()),
            Expr::Macro(inner) => self.comprehension(inner),
        }
    }

    fn variable(&self, name: &str) -> Val {
        let known = self.scope.iter().rev().find(|(known, _)| known == name);
        known.map_or_else(|| Val::Type(name.to_owned()), |(_, value)| value.clone())
    }

    fn call(&mut self, function: &str, target: Option<&Node>, args: &[Node]) -> Outcome {
        match (function, args) {
            ("_&&_", [left, right]) => return self.logic(left, right, false),
            ("_||_", [left, right]) => return self.logic(left, right, true),
            ("_?_:_", [condition, yes, no]) => {
                return match self.node(condition)? {
                    Val::Bool(true) => self.node(yes),
                    Val::Bool(false) => self.node(no),
                    _ => Err(NO_OVERLOAD.to_owned()),
                };
            }
            ("orValue" | "or", [other]) if target.is_some() => {
                return self.or(function, target, other);
            }
            _ => {}
        }
        let qualified = target
            .and_then(Node::qualified_name)
            .map(|prefix| format!("{prefix}.{function}"));
        let namespaced = qualified.filter(|name| super::signatures::lookup(name).is_some());
        let mut values = Vec::with_capacity(args.len() + 1);
        if let (Some(target), None) = (target, &namespaced) {
            values.push(self.node(target)?);
        }
        for arg in args {
            values.push(self.node(arg)?);
        }
        functions::call(
            namespaced.as_deref().unwrap_or(function),
            &values,
            target.is_some() && namespaced.is_none(),
        )
    }

    /// One side that decides makes an error on the other side irrelevant.
    fn logic(&mut self, left: &Node, right: &Node, decisive: bool) -> Outcome {
        let left = self.node(left);
        if matches!(left, Ok(Val::Bool(value)) if value == decisive) {
            return left;
        }
        match (left, self.node(right)) {
            (_, Ok(Val::Bool(value))) if value == decisive => Ok(Val::Bool(value)),
            (Err(error), _) | (Ok(Val::Bool(_)), Err(error)) => Err(error),
            (Ok(Val::Bool(_)), Ok(Val::Bool(value))) => Ok(Val::Bool(value)),
            _ => Err(NO_OVERLOAD.to_owned()),
        }
    }

    fn or(&mut self, function: &str, target: Option<&Node>, other: &Node) -> Outcome {
        let value = match target {
            Some(target) => self.node(target)?,
            None => return Err(NO_OVERLOAD.to_owned()),
        };
        match value {
            Val::Optional(Some(inner)) if function == "orValue" => Ok(*inner),
            Val::Optional(Some(_)) => Ok(value),
            Val::Optional(None) => self.node(other),
            _ => Err(NO_OVERLOAD.to_owned()),
        }
    }

    fn list(&mut self, items: &[(Node, bool)]) -> Outcome {
        let mut out = Vec::with_capacity(items.len());
        for (item, optional) in items {
            match (self.node(item)?, optional) {
                (Val::Optional(value), true) => out.extend(value.map(|value| *value)),
                (value, _) => out.push(value),
            }
        }
        Ok(Val::list(out))
    }

    fn map(&mut self, entries: &[(Node, Node, bool)]) -> Outcome {
        let mut out = BTreeMap::new();
        for (key, value, optional) in entries {
            let key = self.node(key)?.key().ok_or("unsupported key type")?;
            match (self.node(value)?, optional) {
                (Val::Optional(value), true) => out.extend(value.map(|value| (key, *value))),
                (value, _) => {
                    out.insert(key, value);
                }
            }
        }
        Ok(Val::Map(Arc::new(out)))
    }

    fn comprehension(&mut self, inner: &Macro) -> Outcome {
        let range = self.node(&inner.range)?;
        if let MacroKind::OptMap | MacroKind::OptFlatMap = inner.kind {
            return self.optional_map(inner, range);
        }
        let pairs: Vec<(Val, Val)> = match &range {
            Val::List(items, _) => (0_i64..).map(Val::Int).zip(items.iter().cloned()).collect(),
            Val::Map(entries) => entries.iter().map(|(key, value)| (key.val(), value.clone())).collect(),
            _ => return Err(NO_OVERLOAD.to_owned()),
        };
        let over_list = matches!(range, Val::List(..));
        let mut outcomes = Vec::with_capacity(pairs.len());
        for (key, value) in pairs {
            let depth = self.scope.len();
            let element = if inner.var2.is_some() || !over_list {
                key.clone()
            } else {
                value.clone()
            };
            self.scope.push((inner.var.clone(), element.clone()));
            if let Some(var2) = &inner.var2 {
                self.scope.push((var2.clone(), value));
            }
            let outcome = self.step(inner);
            self.scope.truncate(depth);
            let decided = decides(inner.kind, &outcome);
            outcomes.push((key, element, outcome));
            if decided {
                break;
            }
        }
        gather(inner.kind, outcomes)
    }

    /// The body for one element; `None` when its condition leaves the element out.
    fn step(&mut self, inner: &Macro) -> Result<Option<Val>, String> {
        if let Some(condition) = &inner.condition {
            match self.node(condition)? {
                Val::Bool(true) => {}
                Val::Bool(false) => return Ok(None),
                _ => return Err(NO_OVERLOAD.to_owned()),
            }
        }
        self.node(&inner.body).map(Some)
    }

    fn optional_map(&mut self, inner: &Macro, range: Val) -> Outcome {
        let Val::Optional(value) = range else {
            return Err(NO_OVERLOAD.to_owned());
        };
        let Some(value) = value else {
            return Ok(Val::Optional(None));
        };
        self.scope.push((inner.var.clone(), *value));
        let outcome = self.node(&inner.body);
        self.scope.pop();
        if inner.kind == MacroKind::OptMap {
            outcome.map(Val::some)
        } else {
            outcome
        }
    }
}

type Step = (Val, Val, Result<Option<Val>, String>);

fn decides(kind: MacroKind, outcome: &Result<Option<Val>, String>) -> bool {
    match (kind, outcome) {
        (MacroKind::All, Ok(Some(Val::Bool(value)))) => !value,
        (MacroKind::Exists, Ok(Some(Val::Bool(value)))) => *value,
        (MacroKind::All | MacroKind::Exists, _) => false,
        (_, outcome) => outcome.is_err(),
    }
}

fn gather(kind: MacroKind, steps: Vec<Step>) -> Outcome {
    match kind {
        MacroKind::All => quantify(steps, false),
        MacroKind::Exists => quantify(steps, true),
        MacroKind::ExistsOne => Ok(Val::Bool(chosen(steps)?.len() == 1)),
        MacroKind::Filter => chosen(steps).map(Val::list),
        MacroKind::SortBy => sort(steps),
        MacroKind::TransformMap => {
            let entries: Result<Vec<_>, String> = steps.into_iter().map(|(key, _, out)| Ok((key, out?))).collect();
            let pairs = entries?
                .into_iter()
                .filter_map(|(key, value)| Some((key.key()?, value?)));
            Ok(Val::Map(Arc::new(pairs.collect())))
        }
        MacroKind::TransformMapEntry => {
            let mut out: BTreeMap<Key, Val> = BTreeMap::new();
            for (_, _, outcome) in steps {
                if let Some(Val::Map(entries)) = outcome? {
                    out.extend(entries.iter().map(|(key, value)| (key.clone(), value.clone())));
                }
            }
            Ok(Val::Map(Arc::new(out)))
        }
        _ => {
            let values: Result<Vec<Option<Val>>, String> = steps.into_iter().map(|(_, _, out)| out).collect();
            Ok(Val::list(values?.into_iter().flatten().collect()))
        }
    }
}

/// `all` and `exists`: an element that decides outweighs errors of others.
fn quantify(steps: Vec<Step>, decisive: bool) -> Outcome {
    let mut error = None;
    for (_, _, outcome) in steps {
        match outcome {
            Ok(Some(Val::Bool(value))) if value == decisive => return Ok(Val::Bool(decisive)),
            Ok(Some(Val::Bool(_))) => {}
            Ok(_) => error = error.or_else(|| Some(NO_OVERLOAD.to_owned())),
            Err(text) => error = error.or(Some(text)),
        }
    }
    error.map_or(Ok(Val::Bool(!decisive)), Err)
}

/// The elements whose body is true.
fn chosen(steps: Vec<Step>) -> Result<Vec<Val>, String> {
    let mut out = Vec::new();
    for (_, element, outcome) in steps {
        match outcome? {
            Some(Val::Bool(true)) => out.push(element),
            Some(Val::Bool(false)) | None => {}
            Some(_) => return Err(NO_OVERLOAD.to_owned()),
        }
    }
    Ok(out)
}

fn sort(steps: Vec<Step>) -> Outcome {
    let mut keyed = Vec::with_capacity(steps.len());
    for (_, element, outcome) in steps {
        keyed.push((outcome?.unwrap_or(Val::Null), element));
    }
    keyed.sort_by(|(a, _), (b, _)| a.compare(b).unwrap_or(std::cmp::Ordering::Equal));
    Ok(Val::list(keyed.into_iter().map(|(_, element)| element).collect()))
}

fn lookup<'a>(operand: &'a Val, field: &str) -> Option<&'a Val> {
    let Val::Map(entries) = operand else {
        return None;
    };
    let key = |name: &str| Key::String(name.into());
    entries
        .get(&key(field))
        .or_else(|| reserved(field).and_then(|name| entries.get(&key(&name))))
}

fn select(operand: &Val, field: &str) -> Outcome {
    match operand {
        Val::Map(_) => lookup(operand, field)
            .cloned()
            .ok_or_else(|| format!("no such key: {field}")),
        Val::Optional(_) => select_optional(operand, field),
        Val::List(..) => Err("unsupported index type 'string' in list".to_owned()),
        Val::Host(host) => host
            .field(field)
            .unwrap_or_else(|| Err(format!("no such key: {field}"))),
        _ => Err(format!("no such key: {field}")),
    }
}

fn select_optional(operand: &Val, field: &str) -> Outcome {
    match operand {
        Val::Optional(Some(inner)) => select_optional(inner, field),
        Val::Optional(None) => Ok(Val::Optional(None)),
        Val::Map(_) => Ok(Val::Optional(lookup(operand, field).cloned().map(Box::new))),
        Val::Host(host) => host
            .field(field)
            .map_or(Ok(Val::Optional(None)), |found| found.map(Val::some)),
        Val::List(..) => Err("unsupported index type 'string' in list".to_owned()),
        _ => Ok(Val::Optional(None)),
    }
}

fn has(operand: &Val, field: &str) -> Outcome {
    match operand {
        Val::Map(_) => Ok(Val::Bool(lookup(operand, field).is_some())),
        Val::Optional(Some(inner)) => has(inner, field),
        Val::List(..) => Err("unsupported index type 'string' in list".to_owned()),
        Val::Host(host) => host
            .field(field)
            .map_or(Ok(Val::Bool(false)), |found| found.map(|_| Val::Bool(true))),
        _ => Ok(Val::Bool(false)),
    }
}
