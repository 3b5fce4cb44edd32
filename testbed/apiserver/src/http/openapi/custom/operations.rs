//! The paths and operations of a custom resource, as the server describes them.

use serde_json::{Map, Value, json};

use super::parameters::{Pool, pool};
use super::{Version, reference};
use crate::http::openapi::proto::Edition;

const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";
const TYPES: [&str; 2] = ["application/json", "application/yaml"];
const PATCH_TYPES: [&str; 3] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
];

/// What is done: the HTTP method, the action it is called, and the verb operations are named by.
type Action = (&'static str, &'static str, &'static str);

const LIST: Action = ("get", "list", "list");
const CREATE: Action = ("post", "post", "create");
const DELETE_COLLECTION: Action = ("delete", "deletecollection", "deletecollection");
const READ: Action = ("get", "get", "read");
const REPLACE: Action = ("put", "put", "replace");
const DELETE: Action = ("delete", "delete", "delete");
const UPDATE: Action = ("patch", "patch", "patch");

/// One path, of a collection, an object or a part of it.
struct Place<'a> {
    version: &'a Version<'a>,
    edition: Edition,
    pool: &'static Pool,
    /// `status`, `scale` or nothing.
    part: &'static str,
    /// All namespaces together.
    everywhere: bool,
}

/// Every path of a version.
pub(super) fn paths(version: &Version<'_>, edition: Edition) -> Map<String, Value> {
    let root = format!("/apis/{}/{}", version.group, version.version);
    let place = |part, everywhere| Place {
        version,
        edition,
        pool: pool(edition),
        part,
        everywhere,
    };
    let mut paths = Map::new();
    let mut collection = format!("{root}/{}", version.plural);
    if version.namespaced {
        paths.insert(collection, place("", true).everywhere());
        collection = format!("{root}/namespaces/{{namespace}}/{}", version.plural);
    }
    let object = format!("{collection}/{{name}}");
    for part in ["status", "scale"].into_iter().filter(|part| version.has(part)) {
        let actions = [READ, REPLACE, UPDATE];
        let described = place(part, false).object(&actions);
        paths.insert(format!("{object}/{part}"), described);
    }
    let actions = [READ, REPLACE, DELETE, UPDATE];
    paths.insert(object, place("", false).object(&actions));
    paths.insert(collection, place("", false).collection());
    paths
}

impl Place<'_> {
    /// One operation alone: all its parameters are those of the path.
    fn everywhere(&self) -> Value {
        let mut operation = self.operation(LIST);
        let own = operation.remove("parameters");
        let mut parameters = own.and_then(|own| own.as_array().cloned()).unwrap_or_default();
        // Sorted by name, `pretty` stands before the versions.
        let at = parameters.len().min(5);
        parameters.insert(at, self.pool.pretty());
        json!({ "get": operation, "parameters": parameters })
    }

    fn collection(&self) -> Value {
        self.item(&[LIST, CREATE, DELETE_COLLECTION], Vec::new())
    }

    fn object(&self, actions: &[Action]) -> Value {
        let description = format!("name of the {}", self.version.kind);
        let mut name = json!({
            "name": "name", "in": "path", "description": description, "required": true,
        });
        let text = json!({ "type": "string", "uniqueItems": true });
        match (self.edition, text) {
            (Edition::V3, text) => name["schema"] = text,
            (Edition::V2, text) => {
                name["type"] = text["type"].clone();
                name["uniqueItems"] = true.into();
            }
        }
        self.item(actions, vec![name])
    }

    fn item(&self, actions: &[Action], mut parameters: Vec<Value>) -> Value {
        if self.version.namespaced {
            parameters.push(self.pool.namespace.clone());
        }
        parameters.push(self.pool.pretty());
        let mut item: Map<String, Value> = actions
            .iter()
            .map(|&action| (action.0.to_owned(), Value::Object(self.operation(action))))
            .collect();
        item.insert("parameters".into(), parameters.into());
        Value::Object(item)
    }

    fn operation(&self, action: Action) -> Map<String, Value> {
        let version = self.version;
        let (tag, id) = self.names(action.2);
        let mut operation = Map::new();
        let mut set = |key: &str, value: Value| operation.insert(key.to_owned(), value);
        set("tags", json!([tag]));
        set("description", self.description(action.2).into());
        set("operationId", id.into());
        set("responses", self.responses(action.1));
        set("x-kubernetes-action", action.1.into());
        let kind = json!({
            "group": version.group, "version": version.version, "kind": version.kind,
        });
        set("x-kubernetes-group-version-kind", kind);
        let mut parameters = self.pool.of_action(action.1);
        match self.edition {
            Edition::V3 => {
                if let Some(body) = self.body(action.1) {
                    set("requestBody", body);
                }
            }
            Edition::V2 => {
                set("consumes", consumes(action.1).into());
                set("produces", TYPES.as_slice().into());
                set("schemes", json!(["https"]));
                if matches!(action.1, "post" | "put") {
                    let schema = json!({ "$ref": reference(self.edition, &self.model(action.1)) });
                    let body = json!({
                        "name": "body", "in": "body", "required": true, "schema": schema,
                    });
                    parameters.insert(0, body);
                }
            }
        }
        if !parameters.is_empty() {
            set("parameters", parameters.into());
        }
        operation
    }

    fn description(&self, verb: &str) -> String {
        let kind = self.version.kind;
        let part = match self.part {
            "" => String::new(),
            part => format!(" {part} of"),
        };
        match verb {
            "list" => format!("list{part} objects of kind {kind}"),
            "patch" => format!("partially update{part} the specified {kind}"),
            "deletecollection" => format!("delete collection of {kind}"),
            "create" | "delete" => format!("{verb}{part}{}{kind}", article(kind)),
            _ => format!("{verb}{part} the specified {kind}"),
        }
    }

    /// The tag and the id of an operation.
    fn names(&self, verb: &str) -> (String, String) {
        let version = self.version;
        let group = version.group.strip_suffix(".k8s.io").unwrap_or(version.group);
        let tag = format!("{}_{}", camel(group, false), camel(version.version, false));
        let (verb, rest) = match verb {
            "deletecollection" => ("delete", "collection"),
            verb => (verb, ""),
        };
        let part = camel(self.part, true);
        let what = if self.everywhere {
            format!("{}ForAllNamespaces", version.kind)
        } else if version.namespaced {
            format!("{rest}Namespaced{}{part}", version.kind)
        } else {
            format!("{rest}{}{part}", version.kind)
        };
        let id = [group, version.version, &what].map(|word| camel(word, true)).concat();
        (tag, format!("{verb}{id}"))
    }

    /// The schema an operation answers with.
    fn model(&self, action: &str) -> String {
        match (action, self.part) {
            ("list", _) => self.version.model(self.version.list_kind),
            ("delete" | "deletecollection", _) => STATUS.to_owned(),
            (_, "scale") => SCALE.to_owned(),
            _ => self.version.model(self.version.kind),
        }
    }

    fn responses(&self, action: &str) -> Value {
        let codes: &[(&str, &str)] = match action {
            "post" => &[("200", "OK"), ("201", "Created"), ("202", "Accepted")],
            "put" => &[("200", "OK"), ("201", "Created")],
            "delete" => &[("200", "OK"), ("202", "Accepted")],
            _ => &[("200", "OK")],
        };
        let schema = json!({ "$ref": reference(self.edition, &self.model(action)) });
        let mut responses = json!({ "401": { "description": "Unauthorized" } });
        for (code, description) in codes {
            responses[*code] = match self.edition {
                Edition::V3 => {
                    json!({ "description": description, "content": content(&TYPES, &schema) })
                }
                Edition::V2 => json!({ "description": description, "schema": schema }),
            };
        }
        responses
    }

    /// The body of a request, which v2 has among the parameters.
    fn body(&self, action: &str) -> Option<Value> {
        let model = match action {
            "post" | "put" => self.model(action),
            "patch" => PATCH.to_owned(),
            "delete" => DELETE_OPTIONS.to_owned(),
            _ => return None,
        };
        let schema = json!({ "$ref": reference(self.edition, &model) });
        let mut body = json!({ "content": content(consumes(action), &schema) });
        if action != "delete" {
            body["required"] = true.into();
        }
        Some(body)
    }
}

fn consumes(action: &str) -> &'static [&'static str] {
    if action == "patch" { &PATCH_TYPES } else { &TYPES }
}

fn content(types: &[&str], schema: &Value) -> Value {
    let each = |name: &&str| ((*name).to_owned(), json!({ "schema": schema }));
    Value::Object(types.iter().map(each).collect())
}

/// ` a ` or ` an `, and nothing but a space before a plural.
fn article(noun: &str) -> &'static str {
    let vowel = noun.starts_with(|c: char| "aeiouAEIOU".contains(c));
    if noun.ends_with('s') && !noun.ends_with("ss") {
        " "
    } else if vowel {
        " an "
    } else {
        " a "
    }
}

/// The letters and digits of a name; what follows anything else begins with a capital.
fn camel(name: &str, capitalize: bool) -> String {
    let mut capital = capitalize;
    let mut id = String::new();
    for (at, letter) in name.char_indices() {
        if letter.is_alphabetic() || letter == '_' || (at != 0 && letter.is_numeric()) {
            if capital {
                id.extend(letter.to_uppercase());
            } else {
                id.push(letter);
            }
            capital = false;
        } else {
            capital = true;
        }
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_made_of_letters() {
        assert_eq!(camel("oa.example.com", true), "OaExampleCom");
        assert_eq!(camel("v1", false), "v1");
        assert_eq!(camel("my-group.2x", false), "myGroup2x");
    }
}
