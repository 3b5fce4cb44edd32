//! What the real server's compiler and runtime (v1.36.4) said about expressions.

use serde_json::{Value, json};

use super::{Compiled, Rules};
use crate::schema::structural::{Rule, Structural};

#[test]
fn expressions_compile_or_fail_as_on_the_real_server() {
    let data: Value = serde_json::from_str(include_str!("../testdata/expressions.json"))
        .expect("test data is JSON");
    let schema = Structural::parse(&data["schema"]);
    let mut wrong = Vec::new();
    for case in data["cases"].as_array().expect("cases") {
        let source = case["rule"].as_str().expect("a rule");
        let rule = Rule {
            rule: source.to_owned(),
            ..Rule::default()
        };
        let error = Compiled::new(&rule, &schema, false).program.err();
        if error.as_deref() != case["error"].as_str() {
            wrong.push(format!(
                "{source}\n  real: {:?}\n  ours: {error:?}",
                case["error"].as_str()
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn rules_evaluate_as_on_the_real_server() {
    let data: Value = serde_json::from_str(include_str!("../testdata/evaluations.json"))
        .expect("test data is JSON");
    let mut wrong = Vec::new();
    for case in data["cases"].as_array().expect("cases") {
        let schema = Structural::parse(&json!({ "type": "object", "properties": { "spec": {
            "type": "object", "properties": data["properties"],
            "x-kubernetes-validations": [{ "rule": case["rule"], "message": "m" }]
        }}}));
        let errors = Rules::compile(&schema, true)
            .validate(&schema, &data["object"], None, None)
            .errors;
        let causes: Vec<Value> = errors
            .iter()
            .map(aplomb_apimachinery::field::FieldError::cause)
            .collect();
        if Value::from(causes.clone()) != case["causes"] {
            wrong.push(format!(
                "{}\n  real: {}\n  ours: {}",
                case["rule"],
                case["causes"],
                Value::from(causes)
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn a_rule_that_takes_too_long_is_stopped() {
    let rule = "self.all(a, self.all(b, self.all(c, self.all(d, a + b + c + d >= 0))))";
    let schema = Structural::parse(&json!({
        "type": "array", "items": { "type": "integer" }, "x-kubernetes-validations": [{ "rule": rule }, { "rule": "false" }]
    }));
    let list: Vec<i64> = (0..100).collect();
    let found = Rules::compile(&schema, false).validate(&schema, &json!(list), None, None);
    let messages: Vec<String> = found
        .errors
        .iter()
        .map(aplomb_apimachinery::field::FieldError::body)
        .collect();
    let expected = format!(
        "Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: {rule}"
    );
    assert_eq!(messages, [expected]);
}
