//! The walk over an expression: what each part costs at worst, how large its value may be, and
//! where in the schema it comes from.

use std::collections::BTreeMap;

use super::calls::{self, Operand};
use super::declared::Declared;
use super::size::Size;
use crate::ast::{Expr, Macro, MacroKind, Node};
use crate::check;
use crate::types::Type;
use crate::value::Val;

const LIST: u64 = 10;
const MAP: u64 = 30;

/// Sizes of the keys and values of a container that the expression makes.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: Size,
    value: Size,
    is_list: bool,
}

/// Where a value comes from. Everything one step away from nowhere counts as the root.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a> {
    Nowhere,
    At(Option<&'a Declared>),
}

/// What is known about a part of an expression.
#[derive(Clone, Debug)]
pub(super) struct Part<'a> {
    pub(super) cost: u64,
    pub(super) size: Option<Size>,
    entry: Option<Entry>,
    pub(super) place: Place<'a>,
}

/// What an expression that compiled costs at worst.
pub(crate) fn estimate(node: &Node, variables: &[(&str, Type)], root: &Declared) -> u64 {
    let mut walk = Walk {
        types: check::types(node, variables),
        root,
        locals: Vec::new(),
    };
    walk.node(node).cost
}

struct Walk<'a> {
    types: BTreeMap<usize, Type>,
    root: &'a Declared,
    locals: Vec<(String, Part<'a>)>,
}

impl<'a> Walk<'a> {
    fn kind(&self, node: &Node) -> Type {
        let known = self.types.get(&check::address(node));
        known.cloned().unwrap_or(Type::Dyn)
    }

    fn step(&self, place: Place<'a>, step: fn(&'a Declared) -> Option<&'a Declared>) -> Place<'a> {
        match place {
            Place::Nowhere => Place::At(Some(self.root)),
            Place::At(declared) => Place::At(declared.and_then(step)),
        }
    }

    /// The size of what has none of its own: by its place, else by its type.
    fn size(&self, place: Place<'a>, kind: &Type) -> Option<Size> {
        match place {
            Place::At(Some(declared)) => Some(Size::up_to(declared.most)),
            _ => is_scalar(kind).then(|| Size::fixed(1)),
        }
    }

    fn at(&self, node: &Node, cost: u64, place: Place<'a>) -> Part<'a> {
        Part {
            cost,
            size: self.size(place, &self.kind(node)),
            entry: None,
            place,
        }
    }

    fn node(&mut self, node: &Node) -> Part<'a> {
        match &node.expr {
            Expr::Literal(value) => Part {
                size: Some(Size::fixed(literal_size(value))),
                ..self.at(node, 0, Place::Nowhere)
            },
            Expr::Ident(name) => self.ident(node, name),
            Expr::Select {
                operand,
                field,
                optional: false,
            } => self.select(node, operand, field),
            Expr::Select { operand, .. } => {
                let cost = self.node(operand).cost.saturating_add(1);
                self.at(node, cost, Place::Nowhere)
            }
            Expr::Has { operand, .. } => {
                let cost = self.node(operand).cost;
                self.at(node, cost, Place::Nowhere)
            }
            Expr::Call { function, target, args } => self.call(node, function, target.as_deref(), args),
            Expr::List(items) => {
                let items: Vec<&Node> = items.iter().map(|(item, _)| item).collect();
                self.list(node, &items)
            }
            Expr::Map(entries) => self.map(node, entries),
            Expr::Struct { .. } => self.at(node, 0, Place::Nowhere),
            Expr::Macro(inner) => self.comprehension(node, inner),
        }
    }

    fn ident(&self, node: &Node, name: &str) -> Part<'a> {
        let local = self.locals.iter().rev().find(|(known, _)| known == name);
        let Some((_, local)) = local else {
            return self.at(node, 1, Place::At(Some(self.root)));
        };
        Part {
            cost: 1,
            size: self.size(local.place, &self.kind(node)).or(local.size),
            ..local.clone()
        }
    }

    fn select(&mut self, node: &Node, operand: &Node, field: &str) -> Part<'a> {
        let part = self.node(operand);
        let counts = matches!(self.kind(operand), Type::Map(..) | Type::Object(_));
        let place = match part.place {
            Place::Nowhere => Place::At(Some(self.root)),
            Place::At(declared) => Place::At(declared.and_then(|from| from.fields.get(field))),
        };
        self.at(node, part.cost.saturating_add(u64::from(counts)), place)
    }

    fn call(&mut self, node: &Node, function: &str, target: Option<&Node>, args: &[Node]) -> Part<'a> {
        let named = check::namespaced(function, target);
        let target = target.filter(|_| named.is_none());
        let function = named.as_deref().unwrap_or(function);
        let parts: Vec<Part<'a>> = args.iter().map(|arg| self.node(arg)).collect();
        let sum = parts.iter().fold(0_u64, |sum, part| sum.saturating_add(part.cost));
        match (function, parts.as_slice()) {
            ("dyn", [only]) => Part {
                cost: only.cost.saturating_add(1),
                place: Place::Nowhere,
                ..only.clone()
            },
            ("_&&_" | "_||_", _) => self.at(node, sum, Place::Nowhere),
            ("_?_:_", [condition, yes, no]) => choice(condition, yes, no),
            ("_[_]", [operand, _]) => self.index(node, operand, &args[0], sum),
            _ => {
                let operands = parts.iter().zip(args);
                let operands: Vec<Operand<'a>> = operands.map(|(part, arg)| self.operand(part, arg)).collect();
                let (own, size) = self.function(function, target, &operands);
                let made = self.at(node, own.saturating_add(sum), Place::Nowhere);
                Part {
                    size: size.or(made.size),
                    entry: appended(function, &parts),
                    ..made
                }
            }
        }
    }

    /// What a function and its receiver cost, and the size of the result where it has one.
    fn function(&mut self, function: &str, target: Option<&Node>, operands: &[Operand<'a>]) -> (u64, Option<Size>) {
        let Some(target) = target else {
            return calls::cost(function, None, operands);
        };
        let part = self.node(target);
        let receiver = self.operand(&part, target);
        let (own, size) = calls::cost(function, Some(&receiver), operands);
        (own.saturating_add(part.cost), size)
    }

    fn operand(&self, part: &Part<'a>, node: &Node) -> Operand<'a> {
        Operand {
            part: part.clone(),
            kind: self.kind(node),
            literal: match &node.expr {
                Expr::Literal(value) => Some(value.clone()),
                _ => None,
            },
        }
    }

    fn index(&self, node: &Node, operand: &Part<'a>, from: &Node, sum: u64) -> Part<'a> {
        let place = match self.kind(from) {
            Type::List(_) | Type::Map(..) => self.step(operand.place, |from| from.element.as_deref()),
            _ => Place::Nowhere,
        };
        let part = self.at(node, sum.saturating_add(1), place);
        Part {
            size: operand.entry.map(|entry| entry.value).or(part.size),
            ..part
        }
    }

    fn list(&mut self, node: &Node, items: &[&Node]) -> Part<'a> {
        let mut cost = LIST;
        let mut value = None;
        for item in items {
            let part = self.node(item);
            cost = cost.saturating_add(part.cost);
            let size = part.size.unwrap_or(Size::UNKNOWN);
            value = Some(value.map_or(size, |known: Size| known.union(size)));
        }
        Part {
            size: Some(Size::fixed(items.len() as u64)),
            entry: Some(Entry {
                key: Size::fixed(1),
                value: value.unwrap_or(Size::fixed(0)),
                is_list: true,
            }),
            ..self.at(node, cost, Place::Nowhere)
        }
    }

    fn map(&mut self, node: &Node, entries: &[(Node, Node, bool)]) -> Part<'a> {
        let mut cost = MAP;
        let mut entry = Entry {
            key: Size::fixed(0),
            value: Size::fixed(0),
            is_list: false,
        };
        for (index, (key, value, _)) in entries.iter().enumerate() {
            let (key, value) = (self.node(key), self.node(value));
            cost = cost.saturating_add(key.cost).saturating_add(value.cost);
            let one = Entry {
                key: key.size.unwrap_or(Size::UNKNOWN),
                value: value.size.unwrap_or(Size::UNKNOWN),
                is_list: false,
            };
            entry = if index == 0 { one } else { both(entry, one) };
        }
        Part {
            size: Some(Size::fixed(entries.len() as u64)),
            entry: Some(entry),
            ..self.at(node, cost, Place::Nowhere)
        }
    }

    fn comprehension(&mut self, node: &Node, inner: &Macro) -> Part<'a> {
        let range = self.node(&inner.range);
        if let MacroKind::OptMap | MacroKind::OptFlatMap = inner.kind {
            return self.optional(node, inner, &range);
        }
        let depth = self.locals.len();
        self.bind(inner, &range);
        let condition = inner.condition.as_ref().map(|node| self.node(node).cost);
        let body = self.node(&inner.body);
        self.locals.truncate(depth);
        let (start, step, end) = rounds(inner.kind, condition, body.cost);
        let count = range.size.unwrap_or(Size::UNKNOWN);
        let cost = range
            .cost
            .saturating_add(start)
            .saturating_add(end)
            .saturating_add(count.max.saturating_mul(step));
        let made = self.at(node, cost, Place::Nowhere);
        let collects = !matches!(inner.kind, MacroKind::All | MacroKind::Exists | MacroKind::ExistsOne);
        Part {
            size: if collects { Some(count) } else { made.size },
            ..made
        }
    }

    /// Declares the variables of a comprehension.
    fn bind(&mut self, inner: &Macro, range: &Part<'a>) {
        let over_list = match range.entry {
            Some(entry) => entry.is_list,
            None => matches!(self.kind(&inner.range), Type::List(_)),
        };
        let part = |size: Option<Size>, place| Part {
            cost: 1,
            size,
            entry: None,
            place,
        };
        let value = part(
            range.entry.map(|entry| entry.value),
            self.step(range.place, |from| from.element.as_deref()),
        );
        let key = part(
            range.entry.map(|entry| entry.key),
            self.step(range.place, |from| from.is_map.then_some(&*KEY)),
        );
        match &inner.var2 {
            Some(var2) => {
                self.locals.push((inner.var.clone(), key));
                self.locals.push((var2.clone(), value));
            }
            None => {
                let element = if over_list { value } else { key };
                self.locals.push((inner.var.clone(), element));
            }
        }
    }

    /// `hasValue` asks the optional once and `value` again; the variable is a list in disguise.
    fn optional(&mut self, node: &Node, inner: &Macro, range: &Part<'a>) -> Part<'a> {
        let depth = self.locals.len();
        let variable = Part {
            size: None,
            entry: None,
            ..self.at(&inner.range, 1, Place::Nowhere)
        };
        self.locals.push((inner.var.clone(), variable));
        let body = self.node(&inner.body);
        self.locals.truncate(depth);
        let wraps = u64::from(inner.kind == MacroKind::OptMap);
        let asked = range.cost.saturating_add(1);
        let cost = asked
            .saturating_mul(2)
            .saturating_add(LIST + wraps)
            .saturating_add(body.cost);
        self.at(node, cost, Place::Nowhere)
    }
}

/// Keys have no limits that rules could know of.
static KEY: std::sync::LazyLock<Declared> = std::sync::LazyLock::new(Declared::default);

/// The entries of two containers that become one.
fn appended(function: &str, parts: &[Part<'_>]) -> Option<Entry> {
    match (function, parts) {
        ("_+_", [left, right]) => left.entry.zip(right.entry).map(|(a, b)| both(a, b)),
        _ => None,
    }
}

fn both(a: Entry, b: Entry) -> Entry {
    Entry {
        key: a.key.union(b.key),
        value: a.value.union(b.value),
        is_list: a.is_list,
    }
}

fn choice<'a>(condition: &Part<'a>, yes: &Part<'a>, no: &Part<'a>) -> Part<'a> {
    let size = |part: &Part<'a>| part.size.unwrap_or(Size::UNKNOWN);
    Part {
        cost: condition.cost.saturating_add(yes.cost.max(no.cost)),
        size: Some(size(yes).union(size(no))),
        entry: yes.entry.zip(no.entry).map(|(a, b)| both(a, b)),
        place: Place::Nowhere,
    }
}

/// What a comprehension costs to begin, for each element, and to end: macros are loops underneath.
fn rounds(kind: MacroKind, condition: Option<u64>, body: u64) -> (u64, u64, u64) {
    let chosen = |step: u64| condition.unwrap_or(0).saturating_add(step);
    let appended = |item: u64| item.saturating_add(2 + LIST);
    match kind {
        MacroKind::All => (0, body.saturating_add(3), 1),
        MacroKind::Exists => (0, body.saturating_add(4), 1),
        MacroKind::ExistsOne => (0, body.saturating_add(2), 2),
        MacroKind::Filter => (LIST, body.saturating_add(appended(1)), 1),
        MacroKind::TransformMap | MacroKind::TransformMapEntry => (MAP, chosen(body.saturating_add(3)), 1),
        _ => (LIST, chosen(appended(body)), 1),
    }
}

fn literal_size(value: &Val) -> u64 {
    match value {
        Val::String(text) => text.chars().count() as u64,
        Val::Bytes(bytes) => bytes.len() as u64,
        _ => 1,
    }
}

fn is_scalar(kind: &Type) -> bool {
    match kind {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}
