//! Whether types fit each other, and what the parameters of a signature stand for.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::source::Issue;
use super::types::Type;

/// The first part of a literal that is not of the type of the others, even if it could be.
pub(super) fn odd_one_out(parts: &[(usize, Type)]) -> Option<Issue> {
    let ((_, common), rest) = parts.split_first()?;
    let (at, found) = rest.iter().find(|(_, found)| found != common)?;
    let message = format!("expected type '{common}' but found '{found}'");
    Some(Issue::new(*at, message))
}

/// Whether `actual` fits `formal`; parameters are bound on the way.
pub(super) fn unify(formal: &Type, actual: &Type, bound: &mut BTreeMap<char, Type>) -> bool {
    match (formal, actual) {
        (Type::Param(name), actual) => match bound.get(name).cloned() {
            None => {
                bound.insert(*name, actual.clone());
                true
            }
            Some(known) if known.is_flexible() => {
                bound.insert(*name, actual.clone());
                true
            }
            Some(Type::Null) if actual.is_nullable() => {
                bound.insert(*name, actual.clone());
                true
            }
            Some(known) => unify(&known, actual, bound),
        },
        (a, b) if a.is_flexible() || b.is_flexible() => true,
        (a, Type::Null) => a.is_nullable(),
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) | (Type::Kind(a), Type::Kind(b)) => {
            matches!(formal, Type::Kind(_)) || unify(a, b, bound)
        }
        (Type::Map(ak, av), Type::Map(bk, bv)) => unify(ak, bk, bound) && unify(av, bv, bound),
        (a, b) => a == b,
    }
}

pub(super) fn substitute(kind: &Type, bound: &BTreeMap<char, Type>) -> Type {
    let inner = |kind: &Arc<Type>| Arc::new(substitute(kind, bound));
    match kind {
        Type::Param(name) => bound.get(name).cloned().unwrap_or(Type::Dyn),
        Type::List(item) => Type::List(inner(item)),
        Type::Optional(value) => Type::Optional(inner(value)),
        Type::Kind(value) => Type::Kind(inner(value)),
        Type::Map(key, value) => Type::Map(inner(key), inner(value)),
        other => other.clone(),
    }
}
