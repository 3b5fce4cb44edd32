//! Two values of one type side by side: which of them are leaves, and what is below the others.
//!
//! Decides for the walks that merge and compare; walks nothing itself.

use serde_json::{Map, Value};

use super::{Form, Mismatches, check_scalar};
use crate::schema::{ListRelationship, ListType, MapType, Scalar};

/// Two values of one type, either of which may be missing, in the form that applies.
pub(super) enum Sides<'s, 'v> {
    /// Nothing is below that could be walked.
    Leaves,
    Maps(
        &'s MapType,
        Option<&'v Map<String, Value>>,
        Option<&'v Map<String, Value>>,
    ),
    Lists(&'s ListType, &'v [Value], &'v [Value]),
}

impl<'s, 'v> Sides<'s, 'v> {
    /// Takes two values apart; scalars are judged on the way.
    pub(super) fn of(
        form: Option<Form<'s>>,
        left: Option<&'v Value>,
        right: Option<&'v Value>,
    ) -> Result<Self, Mismatches> {
        let object = |side: Option<&'v Value>| side.and_then(Value::as_object);
        let items = |side: Option<&'v Value>| {
            let list = side.and_then(Value::as_array);
            list.map_or(&[][..], Vec::as_slice)
        };
        Ok(match form {
            Some(Form::Scalar(scalar)) => {
                check_scalars(scalar, left, right)?;
                Self::Leaves
            }
            Some(Form::Map(map)) => match (object(left), object(right)) {
                _ if map.atomic => Self::Leaves,
                (l, r) if l.is_none_or(Map::is_empty) && r.is_none_or(Map::is_empty) => Self::Leaves,
                (l, r) => Self::Maps(map, l, r),
            },
            Some(Form::List(list)) => match (items(left), items(right)) {
                _ if list.relationship == ListRelationship::Atomic => Self::Leaves,
                ([], []) => Self::Leaves,
                (l, r) => Self::Lists(list, l, r),
            },
            None => return Err(Mismatches::new("schema error: invalid atom: inlined")),
        })
    }
}

/// One side that fits is enough.
fn check_scalars(scalar: Scalar, left: Option<&Value>, right: Option<&Value>) -> Result<(), Mismatches> {
    let left = check_scalar(scalar, left, "lhs: ");
    match (left, check_scalar(scalar, right, "rhs: ")) {
        (Err(mut left), Err(right)) => {
            left.0.extend(right.0);
            Err(left)
        }
        _ => Ok(()),
    }
}
