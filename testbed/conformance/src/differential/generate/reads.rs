//! Gets and lists.

use super::{Generator, Place};
use crate::differential::catalog::NAMESPACES;
use crate::differential::op::{Op, Verb};

const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf,application/json";

const LABEL_SELECTORS: [&str; 12] = [
    "app=one",
    "app==two",
    "app!=one",
    "app in (one, two),tier",
    "app notin (one)",
    "!app",
    "watched=yes",
    "example.com/role=leader",
    "app=",
    "app in (one",
    "bad key=x",
    "app=bad!",
];

const FIELD_SELECTORS: [&str; 14] = [
    "metadata.name=one",
    "metadata.name!=one",
    "metadata.name=one,metadata.namespace=ns-a",
    "metadata.namespace=ns-b",
    "metadata.namespace!=ns-a",
    "spec.color=red",
    "spec.nothing=x",
    "metadata.labels=x",
    "metadata.name",
    "type=Opaque",
    "status.replicas=1",
    "status.successful!=1",
    "spec.nodeName=,status.phase=Pending",
    "spec.unschedulable=false",
];

impl Generator<'_> {
    pub(super) fn get(&mut self, place: &Place) -> Op {
        let mut op = place.op(Verb::Get);
        op.status = self.catalog.kinds[place.kind].status && self.dice.chance(10);
        match self.dice.below(100) {
            0..=4 => op = op.param("resourceVersion", "$version"),
            5..=6 => op = op.param("resourceVersion", "nonsense"),
            _ => {}
        }
        if self.dice.chance(15) {
            op.accept = Some(self.dice.pick(&[METADATA_ONLY, TABLE, PROTOBUF]));
        }
        op
    }

    pub(super) fn list(&mut self, place: &Place) -> Op {
        let kind = &self.catalog.kinds[place.kind];
        let everywhere = kind.namespaced && kind.custom && self.dice.chance(20);
        let namespace = if everywhere { None } else { place.namespace.as_deref() };
        let mut op = Op::new(Verb::List, place.kind, namespace, None);
        if kind.keep {
            // Other namespaces of the server must not show.
            return op.param("fieldSelector", format!("metadata.name={}", NAMESPACES[0]));
        }
        if self.dice.chance(25) {
            op = op.param("labelSelector", self.dice.pick(&LABEL_SELECTORS));
        }
        if self.dice.chance(20) {
            op = op.param("fieldSelector", self.dice.pick(&FIELD_SELECTORS));
        }
        op = self.versioned(op);
        if self.dice.chance(12) {
            op.accept = Some(self.dice.pick(&[METADATA_LIST, TABLE, PROTOBUF]));
        }
        op
    }

    /// Pages and the forms of `resourceVersion`.
    fn versioned(&mut self, op: Op) -> Op {
        let limit = ["1", "2", "3"][self.dice.below(3)];
        match self.dice.below(100) {
            0..=24 => op.param("limit", limit),
            25..=39 => op.param("limit", limit).param("continue", "$continue"),
            40..=41 => op.param("continue", "garbage"),
            42 => op.param("limit", "many"),
            43..=47 => op
                .param("resourceVersion", "$listed")
                .param("resourceVersionMatch", "NotOlderThan"),
            48..=52 => op
                .param("resourceVersion", "$listed")
                .param("resourceVersionMatch", "Exact"),
            53 => op.param("resourceVersion", "0").param("resourceVersionMatch", "Exact"),
            54 => op.param("resourceVersionMatch", "Exact"),
            55 => op.param("resourceVersion", "nonsense"),
            56 => op
                .param("resourceVersion", "$listed")
                .param("resourceVersionMatch", "Newest"),
            57 => op.param("resourceVersion", "$listed").param("continue", "$continue"),
            58 => op.param("limit", limit).param("resourceVersion", "$listed"),
            59 => op.param("limit", "-1"),
            _ => op,
        }
    }
}
