//! Requests for subresources besides `/status`: scale, eviction, binding, tokens.

use serde_json::{Value, json};

use super::{Generator, Place};
use crate::differential::op::{Body, Op, Verb};

impl Generator<'_> {
    pub(super) fn subresource(&mut self, place: &Place) -> Op {
        let subs = self.catalog.kinds[place.kind].subs.clone();
        match self.dice.pick(&subs).as_str() {
            "scale" => self.scale(place),
            "eviction" => self.evict(place),
            "binding" => self.bind(place),
            "ephemeralcontainers" => self.debug(place),
            _ => self.token(place),
        }
    }

    fn scale(&mut self, place: &Place) -> Op {
        let verb = self.dice.pick(&[
            Verb::Get,
            Verb::Update,
            Verb::MergePatch,
            Verb::MergePatch,
            Verb::JsonPatch,
            Verb::StrategicPatch,
            Verb::StrategicPatch,
            Verb::Apply,
            Verb::Apply,
        ]);
        let mut op = place.op(verb);
        op.sub = Some("scale");
        let replicas = self.dice.pick(&[
            json!(0),
            json!(1),
            json!(2),
            json!(3),
            json!(-1),
            json!("3"),
            json!(1.5),
            json!(null),
        ]);
        let patch = self.scale_patch(&replicas);
        op.body = match verb {
            Verb::Get => return op,
            Verb::JsonPatch => Body::Json(self.scale_steps(&replicas)),
            Verb::Apply => {
                let mut body = json!({
                    "apiVersion": "autoscaling/v1", "kind": "Scale",
                    "metadata": {"name": place.name}, "spec": {"replicas": replicas},
                });
                if self.dice.chance(10) {
                    body["spec"] = json!({});
                }
                if self.dice.chance(10) {
                    body["apiVersion"] = json!("apps/v1");
                }
                op = op.param("force", self.dice.pick(&["true", "false"]));
                op = op.param("fieldManager", self.dice.pick(&super::MANAGERS));
                op.body = Body::Json(body);
                return op;
            }
            Verb::Update => {
                let mut body = patch;
                body["metadata"]["name"] = json!(place.name);
                if self.dice.chance(10) {
                    body["metadata"]["name"] = json!("another");
                }
                if self.dice.chance(10) {
                    body["kind"] = json!("Deployment");
                }
                Body::Json(body)
            }
            _ => Body::Json(patch),
        };
        self.write_params(op)
    }

    fn scale_patch(&mut self, replicas: &Value) -> Value {
        let mut patch = json!({"spec": {"replicas": replicas}});
        match self.dice.below(20) {
            0..=1 => patch["metadata"] = json!({"resourceVersion": "$version"}),
            2..=3 => patch["metadata"] = json!({"resourceVersion": "$older"}),
            4 => patch["metadata"] = json!({"uid": "$uid"}),
            5 => patch["metadata"] = json!({"uid": "00000000-0000-4000-8000-0000000000bb"}),
            6 => patch["metadata"] = json!({"labels": {"a": "b"}}),
            7 => patch["metadata"] = json!({"labels": {"bad key": "b"}}),
            8 => patch["status"] = json!({"replicas": 7, "selector": "x=y"}),
            9 => patch["bogus"] = json!(1),
            10 => patch = json!({}),
            _ => {}
        }
        patch
    }

    fn scale_steps(&mut self, replicas: &Value) -> Value {
        match self.dice.below(6) {
            0 => json!([{"op": "test", "path": "/spec/replicas", "value": 1}]),
            1 => json!([{"op": "remove", "path": "/spec/replicas"}]),
            2 => json!([{"op": "replace", "path": "/metadata/name", "value": "x"}]),
            _ => json!([{"op": "add", "path": "/spec/replicas", "value": replicas}]),
        }
    }

    fn evict(&mut self, place: &Place) -> Op {
        let mut op = place.op(Verb::Create);
        op.sub = Some("eviction");
        let mut body = json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": place.name},
        });
        match self.dice.below(24) {
            0 => body["metadata"]["name"] = json!("another"),
            1 => body["metadata"]["namespace"] = json!("elsewhere"),
            2 => body["apiVersion"] = json!("policy/v1beta1"),
            3 => body["kind"] = json!("Pod"),
            4 => body["deleteOptions"] = json!({"dryRun": ["All"]}),
            5 => body["deleteOptions"] = json!({"preconditions": {"uid": "$uid"}}),
            6 => body["deleteOptions"] = json!({"preconditions": {"resourceVersion": "$older"}}),
            7 => body["deleteOptions"] = json!({"gracePeriodSeconds": 0}),
            8 => body["deleteOptions"] = json!({"gracePeriodSeconds": "x"}),
            9 => return self.with_body(op.param("dryRun", "All"), body),
            10 => body["bogus"] = json!(1),
            11 => {
                body["deleteOptions"] = json!({"preconditions": {"uid": "00000000-0000-4000-8000-0000000000bb"}});
            }
            _ => {}
        }
        self.with_body(op, body)
    }

    fn bind(&mut self, place: &Place) -> Op {
        let mut op = place.op(Verb::Create);
        op.sub = Some("binding");
        let mut body = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": place.name},
            "target": {"kind": "Node", "name": "one"},
        });
        match self.dice.below(16) {
            0 => body["metadata"]["name"] = json!("another"),
            1 => body["target"]["kind"] = json!("Pod"),
            2 => body["target"]["name"] = json!(""),
            3 => body["target"] = json!({"kind": "Pod"}),
            4 => body["metadata"]["uid"] = json!("00000000-0000-4000-8000-0000000000bb"),
            5 => body["metadata"]["labels"] = json!({"app": "one"}),
            6 => body["metadata"]["annotations"] = json!({"bound": "yes"}),
            7 => return self.with_body(op.param("dryRun", "All"), body),
            _ => {}
        }
        self.with_body(op, body)
    }

    fn debug(&mut self, place: &Place) -> Op {
        let mut op = place.op(Verb::StrategicPatch);
        op.sub = Some("ephemeralcontainers");
        let name = self.dice.pick(&["debug", "debug", "more", "main", "BAD"]);
        let mut container = json!({"name": name, "image": "example.com/debug"});
        match self.dice.below(10) {
            0 => container["ports"] = json!([{"containerPort": 80}]),
            1 => container["image"] = json!("example.com/debug:2"),
            2 => container["$patch"] = json!("delete"),
            3 => container["stdin"] = json!(true),
            _ => {}
        }
        let mut body = json!({"spec": {"ephemeralContainers": [container]}});
        match self.dice.below(10) {
            0 => body["metadata"] = json!({"labels": {"app": "two"}}),
            1 => body["spec"]["priority"] = json!(5),
            2 => {
                op.verb = Verb::Get;
                return op;
            }
            _ => {}
        }
        self.with_body(op, body)
    }

    fn token(&mut self, place: &Place) -> Op {
        let mut op = place.op(Verb::Create);
        op.sub = Some("token");
        let mut body = json!({"spec": {}});
        match self.dice.below(20) {
            0 => body["spec"]["expirationSeconds"] = json!(5),
            1 => body["spec"]["expirationSeconds"] = json!(5_000_000_000_i64),
            2 => body["spec"]["expirationSeconds"] = json!(1200),
            3 => body["spec"]["audiences"] = json!(["vault", "other"]),
            4 => body["metadata"] = json!({"name": "another"}),
            5 => body["metadata"] = json!({"namespace": "elsewhere"}),
            6 => body["metadata"] = json!({"uid": "$uid"}),
            7 => body["metadata"] = json!({"uid": "00000000-0000-4000-8000-0000000000bb"}),
            8 => body["metadata"] = json!({"labels": {"a": "b"}}),
            9 => body["spec"]["boundObjectRef"] = json!({"kind": "ConfigMap", "apiVersion": "v1", "name": "x"}),
            10 => body["spec"]["boundObjectRef"] = json!({"kind": "Pod", "apiVersion": "v1", "name": "one"}),
            11 => body["spec"]["boundObjectRef"] = json!({"kind": "Secret", "apiVersion": "v1", "name": "one"}),
            12 => {
                body["spec"]["boundObjectRef"] = json!({
                    "kind": "Secret", "apiVersion": "v1", "name": "one",
                    "uid": "00000000-0000-4000-8000-0000000000bb",
                });
            }
            13 => body["spec"]["boundObjectRef"] = json!({"kind": "Node", "apiVersion": "v1", "name": "two"}),
            14 => body["spec"]["expirationSeconds"] = json!("x"),
            15 => body["spec"]["bogus"] = json!(1),
            _ => {}
        }
        self.with_body(op, body)
    }

    fn with_body(&mut self, mut op: Op, body: Value) -> Op {
        op.body = Body::Json(body);
        if self.dice.chance(15) {
            let how = self.dice.pick(&["Strict", "Ignore", "Warn"]);
            return op.param("fieldValidation", how);
        }
        op
    }
}
