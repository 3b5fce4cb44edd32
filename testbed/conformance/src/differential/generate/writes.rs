//! Creates and updates.

use serde_json::{Value, json};

use super::{Generator, Place};
use crate::differential::catalog::overlay;
use crate::differential::op::{Body, Op, Verb};

impl Generator<'_> {
    pub(super) fn create(&mut self, place: &Place) -> Op {
        let kind = self.catalog.kinds[place.kind].clone();
        let mut object = kind.identity(place.namespace.as_deref(), &place.name);
        overlay(&mut object, &kind.base, false);
        let nulls = self.dice.chance(30) && !kind.bytes;
        for fragment in self.fragments(&kind, false, 22) {
            overlay(&mut object, &fragment, nulls);
        }
        let mut op = place.op(Verb::Create);
        match self.dice.below(100) {
            0..=3 => {
                self.generate_name(&mut object);
                op = op.param("dryRun", "All");
            }
            4 => {
                if let Some(metadata) = object["metadata"].as_object_mut() {
                    metadata.retain(|field, _| field != "name" && field != "generateName");
                }
            }
            5 => overlay(&mut object, &json!({"metadata": {"resourceVersion": "1"}}), false),
            6..=7 => drop(object["metadata"].as_object_mut().map(|m| m.remove("namespace"))),
            _ => {}
        }
        op.body = self.sometimes_duplicated(object);
        self.write_params(op)
    }

    fn generate_name(&mut self, object: &mut Value) {
        let prefix = self.dice.pick(&["gen-", "gen-a.", "Bad_"]);
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("name");
            metadata.insert("generateName".to_owned(), json!(prefix));
        }
    }

    /// Now and then the text of the body says a field twice.
    fn sometimes_duplicated(&mut self, object: Value) -> Body {
        if !self.dice.chance(4) {
            return Body::Json(object);
        }
        let text = object.to_string();
        let kind = object["kind"].clone();
        Body::Text(format!("{{\"kind\":{kind},{}", &text[1..]))
    }

    pub(super) fn update(&mut self, place: &Place) -> Op {
        let kind = self.catalog.kinds[place.kind].clone();
        let mut op = place.op(Verb::Update);
        op.status = kind.status && self.dice.chance(30);
        let mut fragments = self.fragments(&kind, op.status, 20);
        match self.dice.below(100) {
            0..=9 => fragments.push(json!({"metadata": {"resourceVersion": "$older"}})),
            10..=16 => fragments.push(json!({"metadata": {"resourceVersion": null}})),
            17..=18 => fragments.push(json!({"metadata": {"resourceVersion": "nonsense"}})),
            19..=20 => fragments.push(json!({"metadata": {"resourceVersion": "0"}})),
            21..=23 => fragments.push(json!({
                "metadata": {"uid": "00000000-0000-4000-8000-0000000000bb"},
            })),
            24..=25 => fragments.push(json!({"metadata": {"name": "another"}})),
            26 => fragments.push(json!({"metadata": {"name": null}})),
            27 => fragments.push(json!({"metadata": {"namespace": null}})),
            28..=30 => fragments.push(json!({"metadata": {"managedFields": null}})),
            _ => {}
        }
        op.body = Body::Edited(fragments);
        self.write_params(op)
    }
}
