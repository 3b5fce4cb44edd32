//! Amounts of resources by name, and what quotas and limits do with them.
//!
//! Names are sorted, also where the server's own order is any.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::super::quantity::Quantity;
use super::super::value::members;

/// So much of each resource.
pub(in super::super) type Amounts = BTreeMap<String, Quantity>;

/// The amounts an object names at `path`.
pub(in super::super) fn read(object: &Value, path: &[&str]) -> Amounts {
    let parsed = members(object, path).filter_map(|(name, amount)| {
        let quantity = Quantity::parse(amount.as_str()?).ok()?;
        Some((name.clone(), quantity))
    });
    parsed.collect()
}

/// As they are stored.
pub(super) fn written(amounts: &Amounts) -> Value {
    let members = amounts
        .iter()
        .map(|(name, amount)| (name.clone(), amount.to_string().into()));
    Value::Object(members.collect::<Map<String, Value>>())
}

/// As messages show them.
pub(super) fn shown(amounts: &Amounts) -> String {
    let each = amounts.iter().map(|(name, amount)| format!("{name}={amount}"));
    each.collect::<Vec<String>>().join(",")
}

/// Adds `more` to `sum`.
pub(in super::super) fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let whole = sum.get(name).map(|there| there.plus(amount));
        sum.insert(name.clone(), whole.unwrap_or_else(|| amount.clone()));
    }
}

/// Raises what is lower than in `others` to what it is there.
pub(in super::super) fn raise(amounts: &mut Amounts, others: &Amounts) {
    for (name, other) in others {
        if amounts.get(name).is_none_or(|there| other > there) {
            amounts.insert(name.clone(), other.clone());
        }
    }
}

/// What there is more of in `new` than in `old`.
pub(super) fn growth(new: &Amounts, old: &Amounts) -> Amounts {
    let nothing = Quantity::zero();
    let grown = new.iter().map(|(name, amount)| {
        let before = old.get(name).unwrap_or(&nothing);
        (name.clone(), amount.minus(before))
    });
    grown.collect()
}

/// Those of resources that are wanted.
pub(super) fn only(amounts: &Amounts, wanted: impl Fn(&str) -> bool) -> Amounts {
    let kept = amounts.iter().filter(|(name, _)| wanted(name));
    kept.map(|(name, amount)| (name.clone(), amount.clone())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn amounts(list: &Value) -> Amounts {
        read(list, &[])
    }

    #[test]
    fn a_sum_has_the_resources_of_both() {
        let mut sum = amounts(&json!({ "cpu": "1", "memory": "512Mi" }));
        add(&mut sum, &amounts(&json!({ "memory": "512Mi", "pods": "1" })));
        assert_eq!(shown(&sum), "cpu=1,memory=1Gi,pods=1");
        assert_eq!(written(&sum), json!({ "cpu": "1", "memory": "1Gi", "pods": "1" }));
    }

    #[test]
    fn only_what_grows_is_growth() {
        let old = amounts(&json!({ "a": "3", "b": "1" }));
        let new = amounts(&json!({ "a": "1", "b": "2", "c": "4" }));
        assert_eq!(shown(&growth(&new, &old)), "a=0,b=1,c=4");
    }

    #[test]
    fn the_higher_one_stays() {
        let mut highest = amounts(&json!({ "a": "3", "b": "1" }));
        raise(&mut highest, &amounts(&json!({ "a": "1", "b": "2", "c": "4" })));
        assert_eq!(shown(&highest), "a=3,b=2,c=4");
    }
}
