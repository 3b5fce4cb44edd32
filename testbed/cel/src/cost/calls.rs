//! What calling a function costs at worst, besides its arguments, and how large its result may be.

use super::estimate::{Part, Place};
use super::size::{REGEX, Size, TRAVERSAL, quotient, scaled};
use crate::types::Type;
use crate::value::Val;

/// A receiver or argument.
pub(super) struct Operand<'a> {
    pub(super) part: Part<'a>,
    pub(super) kind: Type,
    pub(super) literal: Option<Val>,
}

impl Operand<'_> {
    fn size(&self) -> Size {
        self.part.size.unwrap_or(Size::UNKNOWN)
    }

    /// The type and size of its items, when it is a container.
    fn item(&self) -> Option<(&Type, Size)> {
        let kind = match &self.kind {
            Type::List(item) | Type::Optional(item) => item,
            Type::Map(key, _) => key,
            _ => return None,
        };
        let size = match self.part.place {
            Place::At(Some(declared)) => declared
                .element
                .as_ref()
                .map_or(Size::UNKNOWN, |element| Size::up_to(element.most)),
            _ => Size::UNKNOWN,
        };
        Some((kind, size))
    }
}

type Cost = (u64, Option<Size>);

/// The cost of one call and, where it has one of its own, the size of the result.
pub(super) fn cost(function: &str, target: Option<&Operand<'_>>, args: &[Operand<'_>]) -> Cost {
    let known = match target {
        Some(target) => method(function, target, args),
        None => plain(function, args),
    };
    known.unwrap_or((1, None))
}

fn method(function: &str, target: &Operand<'_>, args: &[Operand<'_>]) -> Option<Cost> {
    let size = target.size();
    Some(match (function, args) {
        ("check", _) => (350_000, None),
        ("fieldSelector" | "labelSelector", [text]) => (text.size().cost(TRAVERSAL), None),
        ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", _) => (each(target), None),
        ("lowerAscii" | "upperAscii" | "substring" | "trim", _) => (size.cost(TRAVERSAL), Some(size)),
        ("replace", [from, to, ..]) => {
            let result = replaced(size, from.size(), to.size());
            (size.cost(2.0 * TRAVERSAL), Some(result))
        }
        ("split", _) => {
            let most = pieces(size, args.get(1));
            (size.cost(2.0 * TRAVERSAL), Some(Size::up_to(most)))
        }
        ("join", _) => {
            let result = joined(target, args.first());
            (result.cost(TRAVERSAL), Some(result))
        }
        ("find" | "findAll", [pattern, ..]) => (matching(size, pattern.size()), Some(Size::up_to(size.max))),
        ("matches", [pattern]) => (matching(size, pattern.size()), None),
        ("contains", [part]) => {
            let part = part.size().cost(TRAVERSAL);
            (size.cost(TRAVERSAL).saturating_mul(part), None)
        }
        ("startsWith" | "endsWith", [part]) => (part.size().cost(TRAVERSAL), None),
        ("format", _) => (size.cost(TRAVERSAL), None),
        ("containsIP", [part]) => (4 + parsed(part), None),
        ("containsCIDR", [part]) => (7 + parsed(part), None),
        ("validate", [text]) => (scaled(text.size().cost(TRAVERSAL), 128.0 * REGEX), None),
        _ => return None,
    })
}

fn plain(function: &str, args: &[Operand<'_>]) -> Option<Cost> {
    let traversal = |operand: &Operand<'_>| operand.size().cost(TRAVERSAL);
    Some(match (function, args) {
        ("url", [text]) => (traversal(text), Some(text.size())),
        ("cidr" | "isIP" | "isCIDR" | "ip", [text, ..])
        | ("quantity" | "isQuantity" | "semver" | "isSemver", [text, ..]) => (traversal(text), None),
        ("ip.isCanonical", [text]) => (text.size().cost(2.0 * TRAVERSAL), None),
        ("strings.quote", [text]) => (traversal(text), Some(quoted(text.size()))),
        ("bytes", [text]) if matches!(text.kind, Type::String | Type::Dyn) => {
            (traversal(text), Some(encoded(text.size())))
        }
        ("string", [bytes]) if matches!(bytes.kind, Type::Bytes | Type::Dyn) => {
            (traversal(bytes), Some(decoded(bytes.size())))
        }
        ("matches", [text, pattern]) => (matching(text.size(), pattern.size()), None),
        ("sets.contains" | "sets.intersects", [a, b]) => (a.size().times(b.size()).max.saturating_add(1), None),
        ("sets.equivalent", [a, b]) => {
            let pairs = a.size().times(b.size()).cost(2.0);
            (pairs.saturating_add(1), None)
        }
        ("@in", [_, list]) if !matches!(list.kind, Type::Map(..)) => (list.size().cost(1.0), None),
        ("_+_", [a, b]) => return added(a, b),
        ("_==_" | "_!=_", [a, b]) if !matches!(a.kind, Type::Opaque(_)) || a.kind != b.kind => (compared(a, b), None),
        ("_<_" | "_<=_" | "_>_" | "_>=_", [a, b]) if may_be_text(a) && may_be_text(b) => (compared(a, b), None),
        _ => return None,
    })
}

fn may_be_text(operand: &Operand<'_>) -> bool {
    matches!(operand.kind, Type::String | Type::Bytes | Type::Dyn | Type::Error)
}

fn compared(a: &Operand<'_>, b: &Operand<'_>) -> u64 {
    let shorter = a.size().max.min(b.size().max);
    scaled(shorter, TRAVERSAL)
}

fn added(a: &Operand<'_>, b: &Operand<'_>) -> Option<Cost> {
    let size = a.size().add(b.size());
    match (&a.kind, &b.kind) {
        (Type::List(_), _) | (_, Type::List(_)) => Some((1, Some(size))),
        _ if may_be_text(a) && may_be_text(b) => Some((size.cost(TRAVERSAL), Some(size))),
        _ => None,
    }
}

/// Going through a list, and through the texts in it; or through a text.
fn each(target: &Operand<'_>) -> u64 {
    let size = target.size();
    match target.item() {
        None => size.cost(TRAVERSAL),
        Some((Type::String | Type::Bytes, item)) => {
            let one = item.cost(TRAVERSAL).saturating_add(1);
            size.max.saturating_mul(one)
        }
        Some(_) => size.max,
    }
}

/// A text that a pattern is tried on; an empty one counts as one character.
fn matching(text: Size, pattern: Size) -> u64 {
    let text = text.add(Size::fixed(1)).cost(TRAVERSAL);
    text.saturating_mul(pattern.cost(REGEX))
}

/// What reading an address from a text adds.
fn parsed(operand: &Operand<'_>) -> u64 {
    match operand.kind {
        Type::String => operand.size().cost(TRAVERSAL),
        _ => 0,
    }
}

/// A text in quotes, where every character may need a backslash.
fn quoted(text: Size) -> Size {
    Size {
        min: text.min.saturating_add(2),
        max: text.max.saturating_mul(2).saturating_add(2),
    }
}

/// The bytes of a text: up to four for a character.
fn encoded(text: Size) -> Size {
    Size {
        max: text.max.saturating_mul(4),
        ..text
    }
}

fn decoded(bytes: Size) -> Size {
    Size {
        min: bytes.min / 4,
        ..bytes
    }
}

/// Into how many pieces a text is split at most.
fn pieces(text: Size, limit: Option<&Operand<'_>>) -> u64 {
    match limit.and_then(|limit| limit.literal.as_ref()) {
        Some(Val::Int(limit)) => u64::try_from(*limit).unwrap_or(u64::MAX),
        _ => text.max,
    }
}

fn joined(target: &Operand<'_>, separator: Option<&Operand<'_>>) -> Size {
    let count = target.size();
    let items = target.item().map_or(Size::fixed(0), |(_, item)| count.times(item));
    let Some(separator) = separator else {
        return items;
    };
    let between = Size {
        min: count.min.saturating_sub(1),
        max: count.max.saturating_sub(1),
    };
    items.add(separator.size().times(between))
}

/// How long a text may be when one part of it is replaced wherever it occurs.
fn replaced(text: Size, from: Size, to: Size) -> Size {
    let (most, most_kept) = if from.min == 0 {
        (text.max.saturating_add(1), text.max)
    } else if to.max <= from.min {
        (0, text.max)
    } else {
        (quotient(text.max, from.min), 0)
    };
    let (least, least_kept) = if from.max == 0 {
        (text.min.saturating_add(1), text.min)
    } else if from.max <= to.min {
        (0, text.min)
    } else {
        (quotient(text.min, from.max), 0)
    };
    let count = Size { min: least, max: most };
    count.times(to).add(Size {
        min: least_kept,
        max: most_kept,
    })
}
