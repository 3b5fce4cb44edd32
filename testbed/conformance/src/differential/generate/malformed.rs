//! Requests that are wrong before anybody looks at the object in them.

use serde_json::json;

use super::{Generator, Place};
use crate::differential::op::{Body, Op, Verb};

impl Generator<'_> {
    pub(super) fn malformed(&mut self, place: &Place) -> Op {
        let verb = self.dice.pick(&[
            Verb::Create,
            Verb::Update,
            Verb::JsonPatch,
            Verb::MergePatch,
            Verb::Apply,
        ]);
        let kind = &self.catalog.kinds[place.kind];
        let mut op = place.op(verb);
        if verb == Verb::Apply {
            op = op.param("fieldManager", "alpha");
        }
        let object = kind.identity(place.namespace.as_deref(), &place.name);
        op.body = match self.dice.below(8) {
            0 => Body::Text("{\"kind\": ".to_owned()),
            1 => Body::Text(String::new()),
            2 => Body::Text("[]".to_owned()),
            3 => Body::Text("\"text\"".to_owned()),
            4 => Body::Text("null".to_owned()),
            5 => {
                op.content_type = Some(self.dice.pick(&["text/plain", "application/xml"]));
                Body::Json(object)
            }
            6 => Body::Json(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}})),
            _ => Body::Json(json!({"metadata": 5, "kind": kind.kind, "apiVersion": kind.api_version})),
        };
        op
    }
}
