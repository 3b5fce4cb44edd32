//! Type checking, with the messages of the server's compiler.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ast::{Expr, Macro, MacroKind, Node};
use super::escape::reserved;
use super::signatures::{self, Overload};
use super::source::Issue;
use super::types::Type;
use super::unify::{odd_one_out, substitute, unify};
use super::value::Val;

const TYPE_NAMES: [(&str, Type); 8] = [
    ("bool", Type::Bool),
    ("int", Type::Int),
    ("uint", Type::Uint),
    ("double", Type::Double),
    ("string", Type::String),
    ("bytes", Type::Bytes),
    ("dyn", Type::Dyn),
    ("null_type", Type::Null),
];

/// The type of an expression under `variables`.
///
/// # Errors
/// Every mistake in it.
pub(super) fn check(node: &Node, variables: &[(&str, Type)]) -> Result<Type, Vec<Issue>> {
    let scope = variables
        .iter()
        .map(|(name, kind)| ((*name).to_owned(), kind.clone()))
        .collect();
    let mut checker = Checker {
        scope,
        issues: Vec::new(),
        literals: Vec::new(),
        types: None,
    };
    let found = checker.node(node);
    match (checker.issues.is_empty(), checker.literals.is_empty()) {
        (true, true) => Ok(found),
        (true, false) => Err(checker.literals),
        (false, _) => Err(checker.issues),
    }
}

/// The type of every part of an expression, by the part's address.
pub(super) fn types(node: &Node, variables: &[(&str, Type)]) -> BTreeMap<usize, Type> {
    let scope = variables.iter().map(|(name, kind)| ((*name).to_owned(), kind.clone()));
    let mut checker = Checker {
        scope: scope.collect(),
        issues: Vec::new(),
        literals: Vec::new(),
        types: Some(BTreeMap::new()),
    };
    checker.node(node);
    checker.types.unwrap_or_default()
}

/// What tells one part of an expression from another.
pub(super) fn address(node: &Node) -> usize {
    std::ptr::from_ref(node).addr()
}

/// The full name of a function that is called as `namespace.name(...)`.
pub(super) fn namespaced(function: &str, target: Option<&Node>) -> Option<String> {
    let prefix = target?.qualified_name()?;
    Some(format!("{prefix}.{function}")).filter(|name| signatures::lookup(name).is_some())
}

struct Checker {
    scope: Vec<(String, Type)>,
    issues: Vec<Issue>,
    /// What is wrong with literals, which is told only when nothing else is.
    literals: Vec<Issue>,
    /// Kept only when somebody wants to know.
    types: Option<BTreeMap<usize, Type>>,
}

impl Checker {
    fn issue(&mut self, at: usize, message: String) -> Type {
        self.issues.push(Issue::new(at, message));
        Type::Error
    }

    fn undeclared(&mut self, at: usize, name: &str) -> Type {
        self.issue(at, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn node(&mut self, node: &Node) -> Type {
        let found = self.expression(node);
        if let Some(types) = &mut self.types {
            types.insert(address(node), found.clone());
        }
        found
    }

    fn expression(&mut self, node: &Node) -> Type {
        match &node.expr {
            Expr::Literal(value) => literal(value),
            Expr::Ident(name) => self.ident(node.at, name),
            Expr::Select {
                operand,
                field,
                optional,
            } => {
                if let Some(kind) = self.dotted(node) {
                    return kind;
                }
                let operand = self.node(operand);
                let found = self.field(node.at, &operand, field);
                if *optional { into_optional(found) } else { found }
            }
            Expr::Has { operand, field } => {
                let operand = self.node(operand);
                self.field(node.at, &operand, field);
                Type::Bool
            }
            Expr::Call { function, target, args } => self.call(node.at, function, target.as_deref(), args),
            Expr::List(items) => self.list(items),
            Expr::Map(entries) => self.map(entries),
            Expr::Struct { name } => self.undeclared(node.at, name),
            Expr::Macro(inner) => self.comprehension(node.at, inner),
        }
    }

    /// A variable whose name has a dot in it.
    fn dotted(&self, node: &Node) -> Option<Type> {
        let mut known = self.scope.iter().filter(|(name, _)| name.contains('.'));
        let name = known.clone().next().and_then(|_| node.qualified_name())?;
        known.find(|(n, _)| *n == name).map(|(_, kind)| kind.clone())
    }

    fn ident(&mut self, at: usize, name: &str) -> Type {
        if let Some((_, kind)) = self.scope.iter().rev().find(|(known, _)| known == name) {
            return kind.clone();
        }
        match TYPE_NAMES.iter().find(|(known, _)| *known == name) {
            Some((_, kind)) => Type::Kind(Arc::new(kind.clone())),
            None => self.undeclared(at, name),
        }
    }

    fn field(&mut self, at: usize, operand: &Type, field: &str) -> Type {
        match operand {
            Type::Dyn => Type::Dyn,
            Type::Error => Type::Error,
            Type::Map(_, value) => (**value).clone(),
            Type::Optional(inner) => into_optional(self.field(at, &inner.clone(), field)),
            Type::Object(object) => {
                let found = object.fields.get(field);
                let found = found.or_else(|| reserved(field).and_then(|name| object.fields.get(&name)));
                match found {
                    Some(kind) => kind.clone(),
                    None => self.issue(at, format!("undefined field '{field}'")),
                }
            }
            other => self.issue(at, format!("type '{other}' does not support field selection")),
        }
    }

    fn call(&mut self, at: usize, function: &str, target: Option<&Node>, args: &[Node]) -> Type {
        if let "_&&_" | "_||_" = function {
            for arg in args {
                self.expect_bool(arg);
            }
            return Type::Bool;
        }
        let mut types: Vec<Type> = args.iter().map(|arg| self.argument(function, arg)).collect();
        self.check_literals(function, target, args);
        if let Some(name) = namespaced(function, target) {
            let overloads = signatures::lookup(&name).unwrap_or_default();
            return self.resolve(at, &name, overloads, false, &types);
        }
        if let Some(target) = target {
            types.insert(0, self.node(target));
        }
        match signatures::lookup(function) {
            Some(overloads) => self.resolve(at, function, overloads, target.is_some(), &types),
            None => self.undeclared(at, function),
        }
    }

    /// What is to be formatted may be of any types, also within one list.
    fn argument(&mut self, function: &str, arg: &Node) -> Type {
        match (function, &arg.expr) {
            ("format", Expr::List(items)) => {
                for (item, _) in items {
                    self.node(item);
                }
                Type::list(Type::Dyn)
            }
            _ => self.node(arg),
        }
    }

    fn resolve(&mut self, at: usize, function: &str, overloads: &[Overload], receiver: bool, args: &[Type]) -> Type {
        let mut result: Option<Type> = None;
        for overload in overloads
            .iter()
            .filter(|o| o.receiver == receiver && o.args.len() == args.len())
        {
            let mut bound = BTreeMap::new();
            if !overload
                .args
                .iter()
                .zip(args)
                .all(|(formal, actual)| unify(formal, actual, &mut bound))
            {
                continue;
            }
            let found = substitute(&overload.result, &bound);
            result = Some(match result {
                Some(known) if known != found => Type::Dyn,
                _ => found,
            });
        }
        result.unwrap_or_else(|| {
            let applied = applied_to(args, receiver);
            self.issue(
                at,
                format!("found no matching overload for '{function}' applied to '{applied}'"),
            )
        })
    }

    fn expect_bool(&mut self, node: &Node) {
        let found = self.node(node);
        if found != Type::Bool && !found.is_flexible() {
            self.issue(node.at, format!("expected type 'bool' but found '{found}'"));
        }
    }

    /// Arguments that are written out are checked for what they mean.
    fn check_literals(&mut self, function: &str, target: Option<&Node>, args: &[Node]) {
        let last = args.last();
        let Some((Expr::Literal(Val::String(text)), at)) = last.map(|arg| (&arg.expr, arg.at)) else {
            return;
        };
        let wrong = match (function, args.len() + usize::from(target.is_some())) {
            ("timestamp", 1) => super::times::parse_timestamp(text).is_none(),
            ("duration", 1) => super::times::parse_duration(text).is_none(),
            ("matches", 2) => aplomb_go_compat::regex::compile(text).is_none(),
            _ => false,
        };
        if wrong {
            let message = format!("invalid {function} argument");
            self.literals.push(Issue::new(at, message));
        }
    }

    fn list(&mut self, items: &[(Node, bool)]) -> Type {
        let mut common: Option<Type> = None;
        let mut parts = Vec::with_capacity(items.len());
        for (item, optional) in items {
            let found = self.node(item);
            let found = if *optional { out_of_optional(found) } else { found };
            parts.push((item.at, found.clone()));
            common = Some(self.join(common, found, item.at));
        }
        self.literals.extend(odd_one_out(&parts));
        Type::list(common.unwrap_or(Type::Dyn))
    }

    fn map(&mut self, entries: &[(Node, Node, bool)]) -> Type {
        let (mut keys, mut values): (Option<Type>, Option<Type>) = (None, None);
        let (mut key_parts, mut parts) = (Vec::new(), Vec::new());
        for (key, value, optional) in entries {
            let found = self.node(key);
            key_parts.push((key.at, found.clone()));
            keys = Some(self.join(keys, found, key.at));
            let found = self.node(value);
            let found = if *optional { out_of_optional(found) } else { found };
            parts.push((value.at, found.clone()));
            values = Some(self.join(values, found, value.at));
        }
        self.literals
            .extend(odd_one_out(&key_parts).or_else(|| odd_one_out(&parts)));
        Type::Map(
            Arc::new(keys.unwrap_or(Type::Dyn)),
            Arc::new(values.unwrap_or(Type::Dyn)),
        )
    }

    fn join(&mut self, common: Option<Type>, found: Type, at: usize) -> Type {
        match common {
            None => found,
            Some(common) if unify(&common, &found, &mut BTreeMap::new()) => common,
            Some(common) => {
                self.issue(at, format!("expected type '{common}' but found '{found}'"));
                common
            }
        }
    }

    fn comprehension(&mut self, at: usize, inner: &Macro) -> Type {
        let range = self.node(&inner.range);
        let (first, second) = self.elements(&range, inner);
        let depth = self.scope.len();
        let both = inner.var2.is_some();
        let element = if both || !matches!(range, Type::List(_)) {
            first.clone()
        } else {
            second.clone()
        };
        self.scope.push((inner.var.clone(), element.clone()));
        if let Some(var2) = &inner.var2 {
            self.scope.push((var2.clone(), second));
        }
        let condition = inner.condition.as_ref().map(|condition| self.node(condition));
        let body = self.body(inner);
        self.scope.truncate(depth);
        if let Some(condition) = condition {
            let accumulated = Type::list(body.clone());
            self.choose(at, &condition, &accumulated);
        }
        self.outcome(at, inner.kind, element, body)
    }

    fn body(&mut self, inner: &Macro) -> Type {
        if let MacroKind::All | MacroKind::Exists = inner.kind {
            self.expect_bool(&inner.body);
            return Type::Bool;
        }
        self.node(&inner.body)
    }

    /// What a range yields: indices or keys, and items or values.
    fn elements(&mut self, range: &Type, inner: &Macro) -> (Type, Type) {
        match (range, inner.kind) {
            (Type::Optional(value), MacroKind::OptMap | MacroKind::OptFlatMap) => ((**value).clone(), Type::Dyn),
            (Type::List(item), _) => (Type::Int, (**item).clone()),
            (Type::Map(key, value), _) => ((**key).clone(), (**value).clone()),
            (Type::Dyn | Type::Error, _) => (Type::Dyn, Type::Dyn),
            (other, _) => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.issue(inner.range.at, message);
                (Type::Error, Type::Error)
            }
        }
    }

    fn outcome(&mut self, at: usize, kind: MacroKind, element: Type, body: Type) -> Type {
        match kind {
            MacroKind::All | MacroKind::Exists => Type::Bool,
            MacroKind::ExistsOne => {
                self.choose(at, &body, &Type::Int);
                Type::Bool
            }
            MacroKind::Filter => {
                let result = Type::list(element);
                self.choose(at, &body, &result);
                result
            }
            MacroKind::Map | MacroKind::TransformList => Type::list(body),
            MacroKind::SortBy => Type::list(element),
            MacroKind::TransformMap => Type::Map(Arc::new(element), Arc::new(body)),
            MacroKind::TransformMapEntry => body,
            MacroKind::OptMap => Type::optional(body),
            MacroKind::OptFlatMap => body,
        }
    }

    /// Macros with a condition are choices underneath, and complain as such.
    fn choose(&mut self, at: usize, condition: &Type, accumulated: &Type) {
        if *condition != Type::Bool && !condition.is_flexible() {
            let applied = format!("({condition}, {accumulated}, {accumulated})");
            self.issue(
                at,
                format!("found no matching overload for '_?_:_' applied to '{applied}'"),
            );
        }
    }
}

/// Arguments as a complaint about them shows them.
fn applied_to(args: &[Type], receiver: bool) -> String {
    let printed: Vec<String> = args.iter().map(Type::to_string).collect();
    match printed.split_first() {
        Some((first, rest)) if receiver => format!("{first}.({})", rest.join(", ")),
        _ => format!("({})", printed.join(", ")),
    }
}

fn literal(value: &Val) -> Type {
    match value {
        Val::Null => Type::Null,
        Val::Bool(_) => Type::Bool,
        Val::Int(_) => Type::Int,
        Val::Uint(_) => Type::Uint,
        Val::Double(_) => Type::Double,
        Val::String(_) => Type::String,
        Val::Bytes(_) => Type::Bytes,
        _ => Type::Dyn,
    }
}

fn into_optional(found: Type) -> Type {
    if let Type::Optional(_) | Type::Error = found {
        found
    } else {
        Type::optional(found)
    }
}

fn out_of_optional(found: Type) -> Type {
    match found {
        Type::Optional(inner) => (*inner).clone(),
        other => other,
    }
}
