//! What rules of a definition may cost at worst: the estimate shows in the factor it is over by.

use anyhow::Result;
use serde_json::{Value, json};

use super::crd::definition;
use crate::case::Case;
use crate::case_run::CaseRun;

pub(super) const CASES: &[Case] = &[
    Case::new("costs/of-expressions", |t| Box::pin(expressions(t))),
    Case::new("costs/of-places", |t| Box::pin(places(t))),
    Case::new("costs/of-all-rules", |t| Box::pin(together(t))),
];

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All";

/// A rule on `spec`, whose lists, maps and texts are limited so that the factor can be told.
async fn judge(t: &CaseRun, rule: &str) -> Result<()> {
    let mut crd = definition(
        t,
        "thing",
        json!({
            "words": { "type": "array", "maxItems": 1000, "items": { "type": "string", "maxLength": 500 } },
            "free": { "type": "array", "items": { "type": "string" } },
            "numbers": { "type": "array", "maxItems": 3000, "items": { "type": "integer" } },
            "pairs": { "type": "array", "maxItems": 2000, "items": { "type": "object", "required": ["a"],
                "properties": { "a": { "type": "string", "maxLength": 300 }, "b": { "type": "integer" }, "e": { "type": "string", "enum": ["one", "three"] } } } },
            "labels": { "type": "object", "maxProperties": 1500, "additionalProperties": { "type": "string", "maxLength": 400 } },
            "text": { "type": "string", "maxLength": 100_000 },
            "long": { "type": "string" },
            "when": { "type": "string", "format": "date-time" },
            "either": { "x-kubernetes-int-or-string": true },
            "data": { "type": "string", "format": "byte", "maxLength": 9000 },
        }),
    );
    let spec = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    spec["x-kubernetes-validations"] = json!([{ "rule": rule, "message": "m" }]);
    t.create(CRDS, &crd).await?;
    Ok(())
}

async fn expressions(t: &CaseRun) -> Result<()> {
    for rule in [
        "self.words.all(a, self.words.all(b, a != b))",
        "self.words.all(a, self.words.exists(b, a == b))",
        "self.words.all(a, self.words.exists_one(b, a == b))",
        "self.numbers.all(a, self.numbers.all(b, a + b > 0))",
        "self.numbers.all(a, self.numbers.exists_one(b, a == b))",
        "self.numbers.all(a, self.numbers.filter(b, b > a).size() < 3)",
        "self.numbers.all(a, self.numbers.map(b, b * 2).size() < 3)",
        "self.numbers.all(a, self.numbers.map(b, b > 1, b * 2).size() < 3)",
        "self.numbers.map(a, a * 2).all(b, self.numbers.all(c, b > c))",
        "self.pairs.all(p, self.pairs.exists(q, p.a == q.a && p.b != q.b))",
        "self.pairs.all(p, self.pairs.all(q, has(q.b) || p.e == q.e))",
        "self.labels.all(k, self.labels.all(l, self.labels[k] == self.labels[l]))",
        "self.labels.all(k, self.labels.exists(l, k == l))",
        "self.words.all(w, self.text.contains(w))",
        "self.words.all(w, w.startsWith(self.text))",
        "self.words.all(w, self.text.matches('^[a-z]+$'))",
        "self.words.all(w, w.matches(self.text))",
        "self.words.all(w, self.text.find('[0-9]+') == w)",
        "self.words.all(w, w in self.words && w in self.words)",
        "self.words.all(w, self.words.indexOf(w) > 0)",
        "self.words.all(w, self.text.indexOf(w) > 0)",
        "self.words.all(w, (self.text + w).size() > 3 && self.text + 'x' == w)",
        "self.words.all(w, self.text.lowerAscii() == w)",
        "self.words.all(w, self.text.replace('a', 'bbb').upperAscii() == w)",
        "self.words.all(w, self.text.split(',').all(p, p == w))",
        "self.words.all(w, self.text.split(',', 5).all(p, p == w))",
        "self.words.all(w, self.words.join(', ') == w)",
        "self.words.all(w, self.words.isSorted() && w == '')",
        "self.numbers.all(n, self.numbers.sum() > n && self.numbers.max() > n)",
        "self.words.all(w, self.free.exists(f, f == w))",
        "self.long.contains(self.long)",
        "self.numbers.all(n, self.when < timestamp('2030-01-01T00:00:00Z') && self.numbers.all(m, m < n))",
        "self.words.all(w, string(self.either) == w && self.words.all(x, self.either == x))",
        "self.words.all(w, [w, 'a', 'b'].all(x, self.words.exists(y, x == y)))",
        "self.words.all(w, {'a': w}.all(k, self.words.exists(y, k == y)))",
        "self.words.all(w, self.words.all(x, (x.size() > 3 ? x : w) == 'abc'))",
        "self.words.all(w, self.words.all(x, isURL(w) && url(w).getHost() == x))",
        "self.words.all(w, self.words.all(x, isQuantity(w) && quantity(w).isGreaterThan(quantity('1'))))",
        "self.words.all(w, self.words.all(x, isIP(w) && ip(w).family() == 4))",
        "self.words.all(w, self.words.all(x, sets.contains([w], [x])))",
        "self.words.all(w, self.words.all(x, dyn(w) == dyn(x)))",
        "self.words.all(i, w, self.words.all(j, x, i == j || w != x))",
        "self.words.all(w, self.words.all(x, self.?text.orValue('') == x))",
        "self.data.size() > 0 && self.words.all(w, string(self.data) == w && bytes(w) == self.data)",
        "self.words.all(w, self.words.all(x, '%s-%s'.format([w, x]) == self.text))",
    ] {
        judge(t, rule).await?;
    }
    Ok(())
}

async fn places(t: &CaseRun) -> Result<()> {
    let rule = json!([{ "rule": "self.contains('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa')" }]);
    let text = |limit: Value| json!({ "type": "string", "maxLength": limit, "x-kubernetes-validations": rule });
    let list = |limit: Value, items: Value| json!({ "type": "array", "maxItems": limit, "items": items });
    let map = |limit: Value, values: Value| json!({ "type": "object", "maxProperties": limit, "additionalProperties": values });
    let object = |required: bool, member: Value| {
        let required = if required { json!(["name", "x"]) } else { json!(["x"]) };
        json!({ "type": "object", "required": required, "properties": { "name": { "type": "string" }, "x": member } })
    };
    for schema in [
        list(json!(5000), text(json!(5000))),
        list(Value::Null, text(json!(50))),
        list(Value::Null, text(Value::Null)),
        map(Value::Null, text(json!(50))),
        map(json!(5000), text(json!(5000))),
        list(json!(100), list(json!(100), text(json!(3000)))),
        list(json!(100), list(Value::Null, text(json!(30)))),
        list(Value::Null, object(true, text(json!(30)))),
        list(
            Value::Null,
            with_rule(
                object(true, json!({ "type": "integer" })),
                "self.name.contains('abcdefghijklmnopqrstuvwxyz')",
            ),
        ),
        list(
            Value::Null,
            with_rule(object(false, json!({ "type": "boolean" })), "self.x || self.name != ''"),
        ),
        list(
            Value::Null,
            with_rule(
                object(false, json!({ "type": "string", "format": "date" })),
                "self.x > timestamp('2020-01-01T00:00:00Z')",
            ),
        ),
    ] {
        let mut schema = schema;
        strip(&mut schema);
        t.create(CRDS, &definition(t, "thing", json!({ "it": schema }))).await?;
    }
    Ok(())
}

fn with_rule(mut schema: Value, rule: &str) -> Value {
    schema["x-kubernetes-validations"] = json!([{ "rule": rule }]);
    schema
}

/// Limits that are not set are not sent.
fn strip(value: &mut Value) {
    if let Value::Object(map) = value {
        map.retain(|_, member| !member.is_null());
        map.values_mut().for_each(strip);
    }
}

async fn together(t: &CaseRun) -> Result<()> {
    let one = |limit: u64| {
        json!({ "type": "array", "maxItems": limit, "items": { "type": "string", "maxLength": 1000 },
        "x-kubernetes-validations": [{ "rule": "self.all(a, a.contains('aaaaaaaaaaaaaaaaaaaa') || self.size() > 3)" }] })
    };
    let limits: Vec<(String, Value)> = (0..14)
        .map(|index| (format!("p{index:02}"), one(9000 + 100 * index)))
        .collect();
    t.create(
        CRDS,
        &definition(t, "thing", Value::Object(limits.into_iter().collect())),
    )
    .await?;
    let message = json!({ "text": { "type": "string", "x-kubernetes-validations": [{ "rule": "true", "messageExpression": "self + self" }] },
        "list": { "type": "array", "items": { "type": "string" }, "x-kubernetes-validations": [{ "rule": "true", "messageExpression": "self.all(a, self.all(b, a == b)) ? 'a' : 'b'" }] } });
    t.create(CRDS, &definition(t, "thing", message)).await?;
    Ok(())
}
