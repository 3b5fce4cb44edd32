//! Building blocks of all schemas: strings and lists with bounds, and rules whose messages state what to write instead.
//! An API server rejects rules whose cost has no bound, so every string and list has one.

use schemars::{Schema, json_schema};
use serde_json::{Value, json};

/// A rule in CEL, and its message, which states what to write instead.
pub(crate) type CelRule = (&'static str, &'static str);

/// The name of an object.
pub(crate) const NAME: CelRule = (
    "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",
    "not a name: write lower case letters, digits, '-' and '.', like web-1",
);

/// The host of a URL. It is cut out as text, because a parser may turn 127.1 into an address before the rule checks it.
pub(crate) const URL_HOST: CelRule = (
    "[self.find('//([^]/:[]+|[[][^]]+)').replace('//', '').replace('[', '')].all(host, host == '' || isIP(host) || \
     host.matches('^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?[.])*[a-z]([-a-z0-9]{0,61}[a-z0-9])?$'))",
    "the host must be an IP address or a domain name in lower case, like 192.0.2.7 or app.example.com",
);

/// A string with validation rules.
pub(crate) fn string_schema(least: u32, most: u32, rules: &[CelRule]) -> Schema {
    let text = json_schema!({ "type": "string", "minLength": least, "maxLength": most });
    with_rules(text, rules)
}

/// The same schema with these rules added.
pub(crate) fn with_rules(mut schema: Schema, rules: &[CelRule]) -> Schema {
    let rule = |(rule, message): &CelRule| json!({ "rule": rule, "message": message });
    let rules: Vec<Value> = rules.iter().map(rule).collect();
    if !rules.is_empty() {
        schema.insert("x-kubernetes-validations".to_owned(), rules.into());
    }
    schema
}

/// The same schema with a description for `kubectl explain`.
pub(crate) fn with_description(description: &str, mut schema: Schema) -> Schema {
    schema.insert("description".to_owned(), description.into());
    schema
}
