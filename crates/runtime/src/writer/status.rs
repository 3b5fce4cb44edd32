//! The status of the owner: collected during a pass, written once at its end, and only if it differs.
//! Also the status of a child whose kind expects its creator to write it.

use http::StatusCode;
use kube::Resource;
use kube::api::{Patch, PatchParams};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::conditions::{
    Condition, ConditionChanges, ConditionStatus, PassOutcome, READY, merge_conditions, resolve_conditions,
};
use crate::error::{Error, ErrorClass, Result};
use crate::journal::JournalEntry;
use crate::key::ObjectKey;
use crate::managed_fields::{FieldSet, FieldStep, ObjectPart, owned_by_others, owned_fields};
use crate::writer::apply::drop_nulls;
use crate::writer::pass::Pass;
use crate::writer::send::{ApiResponse, WriteRequest};
use crate::writer::{ErasedKind, LiveObjects};

const STATUS: Option<&str> = Some("status");

impl Pass {
    /// Ends the pass: writes the status from the reconcile and the conditions from `outcome`.
    /// Nothing is sent after a conflict, for an owner that is deleted or needs nothing from this controller, or
    /// if nothing would change.
    pub async fn flush(&self, outcome: PassOutcome<'_>) -> Result<()> {
        let live = self.live();
        if self.state().owner_deleted || self.owner.is_live_released_by(&live, self.writer.manager()) {
            return Ok(());
        }
        let Some(status) = self.desired_status(&live, outcome)? else {
            return Ok(());
        };
        let owner = &self.owner;
        let mut body = json!({
            "apiVersion": owner.kind.api_version(),
            "kind": owner.kind.name(),
            "metadata": {"name": &*owner.id.key.name},
            "status": status,
        });
        if let Some(namespace) = &owner.id.key.namespace {
            body["metadata"]["namespace"] = json!(&**namespace);
        }
        if self.is_noop(&owner.id, STATUS, &body, &live) {
            self.record_suppressed("status", &owner.id);
            return Ok(());
        }
        self.send_status(body, &live).await
    }

    async fn send_status(&self, mut body: Value, live: &Value) -> Result<()> {
        let owner = &self.owner;
        let desired = body.clone();
        body["metadata"]["uid"] = json!(owner.uid);
        let write = WriteRequest {
            verb: "status",
            object: &owner.id,
            part: ObjectPart::Status,
            live: Some(live),
            lock: None,
            known: owner.known.as_deref(),
        };
        let parameters = PatchParams::apply(self.writer.manager()).force();
        let request = owner
            .kind
            .request(owner.id.key.namespace.as_deref())
            .patch_subresource("status", &owner.id.key.name, &parameters, &Patch::Apply(&body))
            .map_err(Error::fault)?;
        let answer = self.send(&write, request).await?;
        if answer.is_object_not_found() && self.is_owner_missing().await? {
            self.record_owner_deleted();
            return Ok(());
        }
        if !answer.is_success() {
            return Err(self.record_status_refused(&write, &answer));
        }
        self.record_transitions(&live["status"], &answer.body["status"]);
        self.memoize(&owner.id, STATUS, &desired, (Some(live), &answer.body));
        self.state().last_answer = Some(answer.body);
        Ok(())
    }

    /// Whether the owner is deleted. The response is the same if its kind has no status subresource.
    async fn is_owner_missing(&self) -> Result<bool> {
        let owner = &self.owner;
        let live = self.read_live(&owner.kind, &owner.id, None).await?;
        Ok(live.is_none_or(|live| live["metadata"]["uid"] != owner.uid))
    }

    fn record_status_refused(&self, write: &WriteRequest<'_>, answer: &ApiResponse) -> Error {
        let error = self.record_refused(write, answer);
        if answer.code != StatusCode::NOT_FOUND {
            return error;
        }
        let kind = &write.object.kind;
        let what = format!("{kind} has no status subresource; add one to its CustomResourceDefinition");
        Error::new(ErrorClass::Invalid, what)
    }

    /// The status to apply; `None` if this pass has none.
    fn desired_status(&self, live: &Value, outcome: PassOutcome<'_>) -> Result<Option<Value>> {
        let (said, mut wishes) = {
            let state = self.state();
            (state.status.clone(), state.condition_changes.clone())
        };
        let said = said.transpose().map_err(Error::fault)?;
        let owned = owned_fields(live, self.writer.manager(), STATUS);
        let owned = owned.as_ref().and_then(|all| all.child(&FieldStep::field("status")));
        let kept = || owned.map(|owned| owned.extract(&live["status"]));
        let spoken = said.is_some();
        let mut status = match said.or_else(kept) {
            Some(Value::Object(status)) => status,
            _ => Map::new(),
        };
        let conditions = status.remove("conditions");
        adopt_conditions(&mut wishes, conditions.as_ref().filter(|_| spoken));
        let existing = existing_conditions(live, owned, self.owns_whole_list(live), &wishes);
        let ready = existing.iter().find(|it| it["type"] == READY);
        let was = ready.and_then(|it| ConditionStatus::parse(it["status"].as_str()?));
        let Some(wishes) = resolve_conditions(&wishes, outcome, was) else {
            return Ok(None);
        };
        let now = self.writer.0.clock.now();
        let conditions = merge_conditions(&existing, &wishes, self.owner.generation, now);
        status.insert("conditions".to_owned(), json!(conditions));
        let observed = match self.owner.generation.filter(|_| outcome.has_observed_spec()) {
            Some(generation) => json!(generation),
            None => live["status"]["observedGeneration"].clone(),
        };
        status.insert("observedGeneration".to_owned(), observed);
        self.declared_fields(live, status)
    }

    /// Whether the conditions are owned as a whole, so that setting one sets all.
    fn owns_whole_list(&self, live: &Value) -> bool {
        let others = owned_by_others(live, self.writer.manager(), STATUS);
        let others = others.as_ref().and_then(|all| all.child(&FieldStep::field("status")));
        let conditions = others.and_then(|all| all.child(&FieldStep::field("conditions")));
        conditions.is_some_and(FieldSet::is_leaf)
    }

    /// Removes fields that the owner's type does not declare: the server would reject the whole status.
    fn declared_fields(&self, live: &Value, status: Map<String, Value>) -> Result<Option<Value>> {
        let mut object = live.clone();
        object["status"] = Value::Object(status);
        let known = (self.owner.declared)(object.clone()).map_err(|error| {
            let what = format!("cannot write the status of {}", self.owner.id.kind);
            error.with_context(&what)
        })?;
        let mut status = object["status"].take();
        retain_known(&mut status, &known["status"]);
        drop_nulls(&mut status);
        let empty = status.as_object().is_none_or(Map::is_empty);
        Ok(Some(status).filter(|_| !empty))
    }

    fn record_transitions(&self, old: &Value, new: &Value) {
        for condition in new["conditions"].as_array().into_iter().flatten() {
            let Some(is) = parse_condition(condition) else {
                continue;
            };
            let was = find_condition(&old["conditions"], &is.type_);
            if was.is_none_or(|was| was["status"] != is.status.as_str() || was["reason"] != *is.reason) {
                self.record(JournalEntry::Condition {
                    condition: is.type_,
                    status: is.status.as_str(),
                    reason: is.reason,
                });
            }
        }
    }
}

/// Keeps the fields of `value` that `known` has too, with any value.
fn retain_known(value: &mut Value, known: &Value) {
    match (value, known) {
        (Value::Object(fields), Value::Object(known)) => {
            fields.retain(|name, _| known.contains_key(name));
            for (name, inner) in fields {
                retain_known(inner, &known[name]);
            }
        }
        (Value::Array(items), Value::Array(known)) => {
            for (item, known) in items.iter_mut().zip(known) {
                retain_known(item, known);
            }
        }
        (value, Value::Null) => *value = Value::Null,
        _ => {}
    }
}

/// The conditions to merge ours into: those we own, those of others that we now set too, and
/// all of them if the list is owned as a `whole`.
fn existing_conditions(live: &Value, owned: Option<&FieldSet>, whole: bool, wishes: &ConditionChanges) -> Vec<Value> {
    let conditions = &live["status"]["conditions"];
    let owned = owned.and_then(|owned| owned.child(&FieldStep::field("conditions")));
    let ours = |condition: &&Value| {
        let kind = condition["type"].as_str().unwrap_or_default();
        let mentioned = wishes.get(kind).is_some() || kind == READY;
        whole
            || mentioned
            || owned.is_some_and(|owned| {
                owned.is_leaf()
                    || owned
                        .steps()
                        .any(|(step, _)| step.resolve(conditions).is_some_and(|it| std::ptr::eq(it, *condition)))
            })
    };
    let all = conditions.as_array().into_iter().flatten();
    all.filter(ours).cloned().collect()
}

/// Conditions in the status of the reconcile count as set.
fn adopt_conditions(wishes: &mut ConditionChanges, conditions: Option<&Value>) {
    let said = conditions.and_then(Value::as_array);
    for condition in said.into_iter().flatten().filter_map(parse_condition) {
        if wishes.get(&condition.type_).is_none() && !wishes.removed.contains(&condition.type_) {
            wishes.set(condition);
        }
    }
}

fn parse_condition(condition: &Value) -> Option<Condition> {
    let text = |field: &str| condition[field].as_str().unwrap_or_default();
    let status = ConditionStatus::parse(text("status"))?;
    Some(Condition::new(text("type"), status, text("reason"), text("message")))
}

fn find_condition<'a>(conditions: &'a Value, kind: &str) -> Option<&'a Value> {
    conditions.as_array()?.iter().find(|it| it["type"] == kind)
}

impl Pass {
    /// Applies `status` to the status of the child `key`. Nothing is sent
    /// if its fields are equal already, or if the child does not exist.
    pub async fn apply_child_status<K>(
        &self,
        key: &ObjectKey,
        status: impl Serialize,
        known: Option<&dyn LiveObjects>,
    ) -> Result<()>
    where
        K: Resource<DynamicType = ()>,
        K::Scope: 'static,
    {
        let kind = ErasedKind::for_resource::<K>();
        let object = kind.object_ref(key.clone());
        let Some(live) = self.read_live(&kind, &object, known).await? else {
            return Ok(());
        };
        self.check_single_controller(&object, &live)?;
        let desired = body(&kind, key, serde_json::to_value(status)?);
        if self.is_noop(&object, STATUS, &desired, &live) {
            self.record_suppressed("report", &object);
            return Ok(());
        }
        let mut pinned = desired.clone();
        pinned["metadata"]["uid"] = live["metadata"]["uid"].clone();
        let parameters = PatchParams::apply(self.writer.manager()).force();
        let request = kind
            .request(key.namespace.as_deref())
            .patch_subresource("status", &key.name, &parameters, &Patch::Apply(&pinned))
            .map_err(Error::fault)?;
        let write = WriteRequest {
            verb: "report",
            object: &object,
            part: ObjectPart::Status,
            live: Some(&live),
            lock: None,
            known,
        };
        let answer = self.send(&write, request).await?;
        if !answer.is_success() {
            return Err(self.record_refused(&write, &answer));
        }
        self.memoize(&object, STATUS, &desired, (Some(&live), &answer.body));
        Ok(())
    }
}

fn body(kind: &ErasedKind, key: &ObjectKey, mut status: Value) -> Value {
    drop_nulls(&mut status);
    let mut body = json!({
        "apiVersion": kind.api_version(),
        "kind": kind.name(),
        "metadata": {"name": &*key.name},
        "status": status,
    });
    if let Some(namespace) = &key.namespace {
        body["metadata"]["namespace"] = json!(&**namespace);
    }
    body
}
