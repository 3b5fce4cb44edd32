//! Bounds of numbers, and the ranges their formats imply.
//!
//! Integers are compared as integers and everything else as floats; a bound that does not fit the
//! declared type is itself a failure, as on the server.

use aplomb_go_compat as go;
use serde_json::{Number, Value};

use super::failure::{Failure, Report};
use super::formats;
use crate::crd::structural::Structural;

/// Integers a float can stand for exactly.
const JSON_INTEGER: std::ops::RangeInclusive<f64> = -9_007_199_254_740_991.0..=9_007_199_254_740_991.0;

pub(super) fn check(number: &Number, schema: &Structural, path: &str) -> Report {
    let checker = Checker {
        number,
        schema,
        path,
        kind: numeric_type(schema),
    };
    let mut report = Report::default();
    checker.in_range(&Value::Number(number.clone()), "Checked", &mut report);
    let limits = &schema.limits;
    if let Some(factor) = limits.multiple_of {
        let exact = checker.in_range(&factor.into(), "MultipleOf", &mut report);
        checker.multiple_of(factor, exact, &mut report);
    }
    if let Some(min) = limits.minimum {
        let exact = checker.in_range(&min.into(), "Minimum boundary", &mut report);
        checker.bound(min, limits.exclusive_minimum, exact, true, &mut report);
    }
    if let Some(max) = limits.maximum {
        let exact = checker.in_range(&max.into(), "Maximum boundary", &mut report);
        checker.bound(max, limits.exclusive_maximum, exact, false, &mut report);
    }
    report.matches += 1;
    report
}

/// Whether a float has an integral value that every JSON reader agrees on.
pub(super) fn is_integral(value: &Value) -> bool {
    match value {
        Value::Number(number) if !number.is_i64() => number
            .as_f64()
            .is_some_and(|f| f.fract() == 0.0 && JSON_INTEGER.contains(&f)),
        _ => false,
    }
}

/// Whether `value` is the `candidate` of an enum; the server converts it to the candidate's kind of
/// number first, so 1.5 counts as 1.
pub(super) fn same(candidate: &Value, value: &Value) -> bool {
    match (candidate, value) {
        (Value::Number(a), Value::Number(b)) if a.is_i64() => {
            a.as_i64() == b.as_i64().or_else(|| b.as_f64().map(truncate))
        }
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        _ => candidate == value,
    }
}

fn numeric_type(schema: &Structural) -> (&'static str, &str) {
    if schema.extensions.int_or_string {
        return ("", "");
    }
    match schema.type_name.as_str() {
        "integer" => ("integer", formats::supported(schema)),
        "number" => ("number", formats::supported(schema)),
        _ => ("", ""),
    }
}

struct Checker<'a> {
    number: &'a Number,
    schema: &'a Structural,
    path: &'a str,
    kind: (&'static str, &'a str),
}

impl Checker<'_> {
    /// Whether `value` fits the declared type and format.
    fn in_range(&self, value: &Value, what: &str, report: &mut Report) -> bool {
        let fits = match self.kind {
            ("integer", "int32") => whole(value).is_some_and(|i| i32::try_from(i).is_ok()),
            ("integer", _) => whole(value).is_some(),
            ("number", "float") => value.as_f64().is_some_and(|f| f.abs() <= f64::from(f32::MAX)),
            _ => true,
        };
        if !fits {
            let (name, path) = (self.schema.type_name.as_str(), self.path);
            let format = match self.kind.1 {
                "" => "(default format)".to_owned(),
                format => format!("with format {format}"),
            };
            report.push(Failure::composite(format!(
                "{what} value must be of type {name} {format} in {path}"
            )));
        }
        fits
    }

    fn multiple_of(&self, factor: f64, exact: bool, report: &mut Report) {
        let step = truncate(factor);
        let multiple = match self.number.as_i64() {
            Some(_) if exact && step <= 0 => {
                return report.push(Failure::bad_factor(self.path, step));
            }
            Some(value) if exact => value % step == 0,
            _ => is_float_multiple(self.number.as_f64().unwrap_or_default(), factor),
        };
        if !multiple {
            let why = format!("should be a multiple of {}", self.shown(factor, exact));
            report.push(Failure::invalid(self.path, self.value(exact), &why));
        }
    }

    fn bound(&self, limit: f64, exclusive: bool, exact: bool, is_minimum: bool, report: &mut Report) {
        let order = match self.number.as_i64() {
            Some(value) if exact => value.cmp(&truncate(limit)),
            _ => self.number.as_f64().unwrap_or_default().total_cmp(&limit),
        };
        let wrong_side = if is_minimum { order.is_lt() } else { order.is_gt() };
        let on_excluded_bound = exclusive && order.is_eq();
        if !(wrong_side || on_excluded_bound) {
            return;
        }
        let words = match (is_minimum, exclusive) {
            (true, false) => "greater than or equal to",
            (true, true) => "greater than",
            (false, false) => "less than or equal to",
            (false, true) => "less than",
        };
        let why = format!("should be {words} {}", self.shown(limit, exact));
        report.push(Failure::invalid(self.path, self.value(exact), &why));
    }

    /// A limit is shown as the kind of number the value was compared as.
    fn shown(&self, limit: f64, exact: bool) -> String {
        if exact && self.number.is_i64() {
            truncate(limit).to_string()
        } else {
            go::float(limit)
        }
    }

    fn value(&self, exact: bool) -> Value {
        match self.number.as_i64() {
            Some(value) if exact => value.into(),
            _ => self.number.as_f64().unwrap_or_default().into(),
        }
    }
}

fn is_float_multiple(value: f64, factor: f64) -> bool {
    let quotient = if factor < 1.0 {
        1.0 / factor * value
    } else {
        value / factor
    };
    let close = (quotient - quotient.round()).abs() < 1e-9 * quotient.round().abs();
    JSON_INTEGER.contains(&quotient) && (quotient.fract() == 0.0 || close)
}

/// The integer a number is, if its text would read as one.
fn whole(value: &Value) -> Option<i64> {
    let as_float = |f: f64| (f.fract() == 0.0 && JSON_INTEGER.contains(&f)).then(|| truncate(f));
    value.as_i64().or_else(|| value.as_f64().and_then(as_float))
}

#[allow(clippy::cast_possible_truncation)] // the server truncates limits to compare integers
fn truncate(value: f64) -> i64 {
    value as i64
}
