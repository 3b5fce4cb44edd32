//! Deletions.

use serde_json::json;

use super::{Generator, Place};
use crate::differential::op::{Body, Op, Verb};

impl Generator<'_> {
    pub(super) fn delete(&mut self, place: &Place) -> Op {
        let mut op = place.op(Verb::Delete);
        if self.catalog.kinds[place.kind].keep {
            // Only deletions that change nothing: the rest is a controller's work.
            op.body = Body::Json(json!({"preconditions": {"uid": "nobody"}}));
            return op;
        }
        let mut options = json!({});
        match self.dice.below(100) {
            0..=5 => options["preconditions"] = json!({"uid": "$uid"}),
            6..=9 => options["preconditions"] = json!({"uid": "00000000-0000-4000-8000-0000000000dd"}),
            10..=13 => options["preconditions"] = json!({"resourceVersion": "$version"}),
            14..=17 => options["preconditions"] = json!({"resourceVersion": "$older"}),
            18..=25 => options["propagationPolicy"] = json!("Background"),
            26..=29 => options["propagationPolicy"] = json!("Foreground"),
            30..=33 => options["propagationPolicy"] = json!("Orphan"),
            34 => options["propagationPolicy"] = json!("Upward"),
            35..=36 => options["gracePeriodSeconds"] = json!(0),
            37 => options["gracePeriodSeconds"] = json!(-5),
            38 => options["orphanDependents"] = json!(true),
            39 => options = json!({"orphanDependents": true, "propagationPolicy": "Orphan"}),
            40..=42 => options["dryRun"] = json!(["All"]),
            43 => options["dryRun"] = json!(["Some"]),
            44 => options["bogus"] = json!(1),
            45 => options = json!({"apiVersion": "v1", "kind": "DeleteOptions"}),
            46 => options = json!({"apiVersion": "v1", "kind": "ConfigMap"}),
            47..=49 => return op.param("dryRun", "All"),
            50..=53 => return op.param("propagationPolicy", "Background"),
            54 => return op.param("propagationPolicy", "Upward"),
            55 => return op.param("gracePeriodSeconds", "x"),
            _ => return op,
        }
        op.body = Body::Json(options);
        op
    }

    /// Always with a selector that leaves the markers of the watches alone.
    pub(super) fn delete_collection(&mut self, place: &Place) -> Op {
        if self.catalog.kinds[place.kind].keep {
            return self.get(place);
        }
        let namespace = place.namespace.as_deref();
        let mut op = Op::new(Verb::DeleteCollection, place.kind, namespace, None);
        if self.dice.chance(40) {
            let body = self.dice.pick(&[
                json!({"propagationPolicy": "Background"}),
                json!({"propagationPolicy": "Orphan"}),
                json!({"propagationPolicy": "Upward"}),
                json!({"gracePeriodSeconds": 0}),
                json!({"dryRun": ["All"]}),
                json!({"dryRun": ["Some"]}),
                json!({"preconditions": {"uid": "00000000-0000-4000-8000-0000000000dd"}}),
                json!({"orphanDependents": false}),
                json!({"bogus": 1}),
            ]);
            op.body = Body::Json(body);
        }
        if self.dice.chance(15) {
            op = op.param("limit", self.dice.pick(&["1", "2", "x"]));
        }
        match self.dice.below(10) {
            0..=3 => op.param("labelSelector", "app=one"),
            4..=5 => op.param("labelSelector", "app in (one,two)"),
            6..=7 => op.param("fieldSelector", format!("metadata.name={}", place.name)),
            8 => op.param("labelSelector", "app=one").param("dryRun", "All"),
            _ => op.param("labelSelector", "app in ("),
        }
    }
}
