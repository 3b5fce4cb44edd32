//! Label selectors with the semantics of Kubernetes. Pure.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// Whether `selector` matches `labels`. An empty selector matches everything; an invalid
/// requirement matches nothing.
#[must_use]
pub fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let mut wanted = selector.match_labels.iter().flatten();
    let mut required = selector.match_expressions.iter().flatten();
    wanted.all(|(key, value)| labels.get(key) == Some(value))
        && required.all(|requirement| matches_requirement(requirement, labels.get(&requirement.key)))
}

fn matches_requirement(requirement: &LabelSelectorRequirement, value: Option<&String>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    match requirement.operator.as_str() {
        "In" => value.is_some_and(|value| values.contains(value)),
        "NotIn" => value.is_none_or(|value| !values.contains(value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pairs = pairs.iter();
        pairs
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    fn requires(key: &str, operator: &str, values: &[&str]) -> LabelSelector {
        LabelSelector {
            match_expressions: Some(vec![LabelSelectorRequirement {
                key: key.to_owned(),
                operator: operator.to_owned(),
                values: Some(values.iter().map(|v| (*v).to_owned()).collect()),
            }]),
            match_labels: None,
        }
    }

    #[test]
    fn match_labels_must_all_be_there() {
        let selector = LabelSelector {
            match_labels: Some(labels(&[("pool", "egress"), ("zone", "a")])),
            match_expressions: None,
        };
        let node = labels(&[("pool", "egress"), ("zone", "a"), ("more", "")]);
        assert!(matches(&selector, &node));
        assert!(!matches(&selector, &labels(&[("pool", "egress")])));
        assert!(!matches(&selector, &labels(&[("pool", "web"), ("zone", "a")])));
    }

    #[test]
    fn an_empty_selector_chooses_everything() {
        assert!(matches(&LabelSelector::default(), &labels(&[])));
    }

    #[test]
    fn in_wants_one_of_its_values() {
        let selector = requires("zone", "In", &["a", "b"]);
        assert!(matches(&selector, &labels(&[("zone", "b")])));
        assert!(!matches(&selector, &labels(&[("zone", "c")])));
        assert!(!matches(&selector, &labels(&[])));
    }

    #[test]
    fn not_in_also_holds_without_the_label() {
        let selector = requires("zone", "NotIn", &["a"]);
        assert!(matches(&selector, &labels(&[("zone", "b")])));
        assert!(matches(&selector, &labels(&[])));
        assert!(!matches(&selector, &labels(&[("zone", "a")])));
    }

    #[test]
    fn exists_and_does_not_exist_check_the_key_alone() {
        let (some, none) = (labels(&[("gpu", "")]), labels(&[]));
        assert!(matches(&requires("gpu", "Exists", &[]), &some));
        assert!(!matches(&requires("gpu", "Exists", &[]), &none));
        assert!(matches(&requires("gpu", "DoesNotExist", &[]), &none));
        assert!(!matches(&requires("gpu", "DoesNotExist", &[]), &some));
    }

    #[test]
    fn labels_and_expressions_must_both_hold() {
        let mut selector = requires("gpu", "DoesNotExist", &[]);
        selector.match_labels = Some(labels(&[("pool", "egress")]));
        assert!(matches(&selector, &labels(&[("pool", "egress")])));
        assert!(!matches(&selector, &labels(&[("pool", "egress"), ("gpu", "1")])));
        assert!(!matches(&selector, &labels(&[("pool", "web")])));
    }

    #[test]
    fn an_operator_that_is_unknown_chooses_nothing() {
        assert!(!matches(&requires("zone", "Near", &["a"]), &labels(&[("zone", "a")])));
    }
}
