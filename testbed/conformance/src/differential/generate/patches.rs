//! Patches of all types.

use serde_json::{Value, json};

use super::{Generator, MANAGERS, Place};
use crate::differential::catalog::{Kind, overlay};
use crate::differential::op::{Body, Op, Verb};

impl Generator<'_> {
    fn patch(&mut self, place: &Place, verb: Verb) -> (Kind, Op) {
        let kind = self.catalog.kinds[place.kind].clone();
        let mut op = place.op(verb);
        op.status = kind.status && self.dice.chance(25);
        (kind, op)
    }

    pub(super) fn merge_patch(&mut self, place: &Place) -> Op {
        let (kind, mut op) = self.patch(place, Verb::MergePatch);
        let mut body = json!({});
        for fragment in self.fragments(&kind, op.status, 18) {
            overlay(&mut body, &fragment, true);
        }
        match self.dice.below(100) {
            0..=4 => overlay(&mut body, &json!({"metadata": {"resourceVersion": "$version"}}), true),
            5..=8 => overlay(&mut body, &json!({"metadata": {"resourceVersion": "$older"}}), true),
            9..=10 => overlay(&mut body, &json!({"metadata": {"uid": "$uid"}}), true),
            11 => op = op.param("force", "true"),
            12 => body = json!({}),
            13 => body = json!([1]),
            _ => {}
        }
        op.body = Body::Json(body);
        self.write_params(op)
    }

    /// At most one fragment of a patch may be refused: which of two the real server meets first is
    /// the order of a Go map.
    pub(super) fn strategic_patch(&mut self, place: &Place) -> Op {
        let (kind, mut op) = self.patch(place, Verb::StrategicPatch);
        let bad = if self.dice.chance(50) { 20 } else { 0 };
        let mut body = json!({});
        for fragment in self.fragments(&kind, op.status, bad) {
            overlay(&mut body, &fragment, true);
        }
        if bad == 0 {
            let fragment = self.directive(&kind, op.status);
            overlay(&mut body, &fragment, true);
            // Whether items are first added or first taken away is the order of a Go map.
            let metadata = body["metadata"].as_object_mut();
            if let Some(metadata) = metadata
                && metadata.contains_key("$deleteFromPrimitiveList/finalizers")
            {
                metadata.remove("finalizers");
            }
        }
        match self.dice.below(100) {
            0..=3 => overlay(&mut body, &json!({"metadata": {"resourceVersion": "$version"}}), true),
            4..=6 => overlay(&mut body, &json!({"metadata": {"resourceVersion": "$older"}}), true),
            7 => body = json!({}),
            8 => body = json!([1]),
            9 => body = json!(null),
            _ => {}
        }
        op.body = Body::Json(body);
        self.write_params(op)
    }

    fn directive(&mut self, kind: &Kind, status: bool) -> Value {
        let (good, bad) = match (status, self.dice.chance(40)) {
            (_, true) => (&self.catalog.metadata.strategic, &self.catalog.metadata.strategic_bad),
            (true, _) => (&kind.status_strategic, &kind.status_strategic),
            (false, _) => (&kind.strategic, &kind.strategic_bad),
        };
        let menu = if self.dice.chance(25) { bad } else { good };
        if menu.is_empty() {
            return json!({});
        }
        self.dice.pick(menu)
    }

    pub(super) fn json_patch(&mut self, place: &Place) -> Op {
        let (kind, mut op) = self.patch(place, Verb::JsonPatch);
        let mut steps: Vec<Value> = Vec::new();
        for fragment in self.fragments(&kind, op.status, 15) {
            let (path, value) = self.leaf(&fragment);
            steps.push(self.step(&path, &value));
        }
        match self.dice.below(100) {
            0..=2 => steps.push(json!({"op": "test", "path": "/metadata/name", "value": "one"})),
            3..=4 => steps.insert(
                0,
                json!({"op": "test", "path": "/metadata/resourceVersion", "value": "$version"}),
            ),
            5 => steps.push(json!({
                "op": "replace", "path": "/metadata/resourceVersion", "value": "$older",
            })),
            6 => steps.push(json!({"op": "bogus", "path": "/metadata/labels"})),
            7 => steps.push(json!({"op": "add", "value": 1})),
            8 => steps.push(json!({"op": "remove", "path": "/metadata/labels/none"})),
            9..=12 => steps = vec![json!({"op": "remove", "path": "/metadata/finalizers/0"})],
            13..=15 => {
                steps = vec![json!({
                    "op": "add", "path": "/metadata/finalizers/-", "value": "example.com/more",
                })]
            }
            16 => steps.clear(),
            17 => steps.push(json!({"op": "replace", "path": "", "value": {"a": 1}})),
            _ => {}
        }
        op.body = Body::Json(json!(steps));
        self.write_params(op)
    }

    /// A path of a fragment, down to a leaf or stopping on the way, and what is there.
    fn leaf(&mut self, fragment: &Value) -> (String, Value) {
        let (mut path, mut at) = (String::new(), fragment.clone());
        while let Value::Object(fields) = &at {
            if fields.is_empty() || (path.matches('/').count() > 1 && self.dice.chance(25)) {
                break;
            }
            let names: Vec<String> = fields.keys().cloned().collect();
            let name = self.dice.pick(&names);
            path.push('/');
            path.push_str(&name.replace('~', "~0").replace('/', "~1"));
            at = fields[&name].clone();
        }
        (path, at)
    }

    fn step(&mut self, path: &str, value: &Value) -> Value {
        // A null in a map of byte strings is stored as an empty one: see GAPS.md.
        let bytes = path.starts_with("/data/") || path.starts_with("/binaryData/");
        if value.is_null() && (bytes || self.dice.chance(80)) {
            return json!({"op": "remove", "path": path});
        }
        match self.dice.below(100) {
            0..=54 => json!({"op": "add", "path": path, "value": value}),
            55..=79 => json!({"op": "replace", "path": path, "value": value}),
            80..=86 => json!({"op": "test", "path": path, "value": value}),
            87..=92 => json!({"op": "remove", "path": path}),
            93..=94 => json!({"op": "add", "path": format!("{path}/0"), "value": value}),
            95..=96 => json!({"op": "copy", "from": path, "path": "/metadata/annotations/copied"}),
            97 => json!({"op": "move", "from": path, "path": "/metadata/annotations/moved"}),
            98 => json!({"op": "remove", "path": format!("{path}/7")}),
            _ => json!({"op": "add", "path": path.trim_start_matches('/'), "value": value}),
        }
    }

    pub(super) fn apply(&mut self, place: &Place) -> Op {
        let (kind, mut op) = self.patch(place, Verb::Apply);
        let mut body = kind.identity(place.namespace.as_deref(), &place.name);
        if !op.status && self.dice.chance(60) {
            overlay(&mut body, &kind.base, false);
        }
        let nulls = self.dice.chance(10) && !kind.bytes;
        for fragment in self.fragments(&kind, op.status, 12) {
            overlay(&mut body, &fragment, nulls);
        }
        self.spoil_apply(&mut op, &mut body);
        op = match self.dice.below(100) {
            0..=1 => op,
            _ => op.param("fieldManager", self.dice.pick(&MANAGERS)),
        };
        if self.dice.chance(35) {
            op = op.param("force", self.dice.pick(&["true", "true", "true", "false"]));
        }
        let body_text = body.to_string();
        op.body = Body::Json(body);
        match self.dice.below(100) {
            0..=4 => op.param("fieldValidation", "Strict"),
            5..=6 => op.param("fieldValidation", "Ignore"),
            // Whether an empty list shows in a dry run is not the same for every applied object.
            7..=10 if !body_text.contains("[]") => op.param("dryRun", "All"),
            _ => op,
        }
    }

    /// Identity in the body of an apply, right and wrong.
    fn spoil_apply(&mut self, op: &mut Op, body: &mut Value) {
        match self.dice.below(100) {
            0..=2 => state(body, &json!({"resourceVersion": "$version"})),
            3..=4 => state(body, &json!({"resourceVersion": "$older"})),
            5..=6 => state(body, &json!({"uid": "$uid"})),
            7 => state(body, &json!({"uid": "00000000-0000-4000-8000-0000000000cc"})),
            8 => state(body, &json!({"name": "another"})),
            9 => state(body, &json!({"managedFields": []})),
            10 => drop(body.as_object_mut().map(|body| body.remove("apiVersion"))),
            11 => drop(body.as_object_mut().map(|body| body.remove("kind"))),
            12 => drop(body.as_object_mut().map(|body| body.remove("metadata"))),
            13 => op.query.push(("force", "maybe".to_owned())),
            _ => {}
        }
    }
}

fn state(body: &mut Value, metadata: &Value) {
    overlay(body, &json!({ "metadata": metadata }), false);
}
