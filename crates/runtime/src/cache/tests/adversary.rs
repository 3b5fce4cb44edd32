//! An adversary writes before, between and after our own writes, and the watch lags, coalesces changes in
//! lists and overtakes responses. Our own writes alone must pass no lens; a foreign change must never
//! be missed.

use std::collections::VecDeque;

use k8s_openapi::api::core::v1::ConfigMap;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{from_value, json, to_value};

use crate::cache::tests::made;
use crate::cache::*;
use crate::predicate::{Predicate, PredicateResult};
use crate::view::{MetaRef, ViewMeta};

/// The stored object. `ours_by` is the field manager of `ours`, as managedFields would record it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Thing {
    metadata: ViewMeta,
    ours: u8,
    ours_by: bool,
    theirs: u8,
    beside: u8,
}

impl View for Thing {
    type Kind = ConfigMap;
    fn meta(&self) -> MetaRef<'_> {
        self.metadata.as_ref()
    }
}

#[derive(Clone, Debug)]
enum Act {
    /// We write our field; the response arrives at [`Act::Answer`].
    Write {
        value: u8,
        locked: bool,
    },
    /// The oldest pending response arrives, or is lost.
    Answer {
        lost: bool,
    },
    /// The adversary writes its field, ours, or one that no controller reads.
    ForeignField(u8),
    OwnField(u8),
    UnreadField,
    /// The adversary deletes the object, or creates it if it does not exist.
    Delete,
    Create,
    /// The controller reads the object from the server, as after a conflict, and checks it again.
    Reread,
    /// The watch shows the next change.
    Deliver,
    /// The watch restarts with a list.
    Relist,
    Bookmark,
}

fn acts(foreign: bool, lost: bool) -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => (0..3u8, any::<bool>()).prop_map(|(value, locked)| Act::Write { value, locked }),
        4 => any::<bool>().prop_map(move |flip| Act::Answer { lost: lost && flip }),
        2 => (0..3u8).prop_map(Act::ForeignField),
        1 => (0..3u8).prop_map(Act::OwnField),
        1 => Just(Act::UnreadField),
        1 => Just(Act::Delete),
        1 => Just(Act::Create),
        1 => Just(Act::Reread),
        5 => Just(Act::Deliver),
        2 => Just(Act::Relist),
        1 => Just(Act::Bookmark),
    ];
    prop::collection::vec(act, 0..60).prop_map(move |mut acts| {
        acts.retain(|act| foreign || !act.is_foreign());
        acts
    })
}

impl Act {
    fn is_foreign(&self) -> bool {
        matches!(
            self,
            Self::ForeignField(_) | Self::OwnField(_) | Self::UnreadField | Self::Delete | Self::Create
        )
    }
}

struct Answer {
    writing: PendingWrite<Thing>,
    response: Value,
    base: Option<ResourceVersion>,
    locked: bool,
}

/// A server with one object, its watch, and a controller that reads when something passes its lens.
struct Model {
    cache: Cache<Thing>,
    lens: Predicate<Thing>,
    version: u64,
    uid: u32,
    stored: Option<Thing>,
    undelivered: VecDeque<(bool, Thing)>,
    answers: VecDeque<Answer>,
    passes: usize,
    /// The values that the controller assumes: what it read last, and wrote since.
    known: Option<(u8, u8)>,
}

impl Model {
    fn new(check: bool) -> Self {
        let cache = Cache::new();
        if check {
            cache.set_foreign_check(|old: &Thing, new: &Thing, _| {
                old.theirs != new.theirs || old.beside != new.beside || !new.ours_by
            });
        }
        let mut model = Self {
            cache,
            lens: Predicate::changed_by(|thing: &Thing| (thing.ours, thing.theirs)),
            version: 1,
            uid: 1,
            stored: Some(thing(1, 1)),
            undelivered: VecDeque::new(),
            answers: VecDeque::new(),
            passes: 0,
            known: None,
        };
        model.relist();
        assert_eq!(model.passes, 1, "the first event passes");
        model.passes = 0;
        model
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Write { value, locked } => self.write(value, locked),
            Act::Answer { lost } => self.answer(lost),
            Act::ForeignField(value) => self.commit(|thing| thing.theirs = value),
            Act::OwnField(value) => self.commit(|thing| {
                thing.ours_by = false;
                thing.ours = value;
            }),
            Act::UnreadField => self.commit(|thing| thing.beside = thing.beside.wrapping_add(1)),
            Act::Delete => self.delete(),
            Act::Create => {
                self.stored.is_none().then(|| self.create(|_| {}));
            }
            Act::Reread => self.reread(),
            Act::Deliver => self.deliver(),
            Act::Relist => self.relist(),
            Act::Bookmark if self.undelivered.is_empty() => {
                self.apply_update(WatchUpdate::Bookmark(ResourceVersion::Number(self.version)));
            }
            Act::Bookmark => {}
        }
    }

    /// Like an API server: a write that changes nothing makes no version.
    fn commit(&mut self, change: impl FnOnce(&mut Thing)) {
        let Some(stored) = &self.stored else {
            return;
        };
        let mut next = stored.clone();
        change(&mut next);
        if next == *stored {
            return;
        }
        self.version += 1;
        next.metadata = meta(self.uid, self.version);
        self.store(next);
    }

    fn create(&mut self, change: impl FnOnce(&mut Thing)) {
        self.uid += 1;
        self.version += 1;
        let mut new = thing(self.uid, self.version);
        change(&mut new);
        self.store(new);
    }

    fn store(&mut self, next: Thing) {
        self.stored = Some(next.clone());
        self.undelivered.push_back((true, next));
    }

    fn delete(&mut self) {
        if let Some(mut gone) = self.stored.take() {
            self.version += 1;
            gone.metadata = meta(self.uid, self.version);
            self.undelivered.push_back((false, gone));
        }
    }

    /// As after a conflict.
    fn reread(&mut self) {
        match &self.stored {
            Some(stored) => self.cache.record_read(&to_value(stored).unwrap()),
            None => {
                if let Some(known) = self.cache.get(&key()) {
                    self.cache.record_delete(&key(), known.meta().uid);
                }
            }
        }
        self.reconcile();
    }

    /// A key never runs twice at once, so a controller writes one after the other.
    fn write(&mut self, value: u8, locked: bool) {
        if !self.answers.is_empty() {
            self.answer(false);
        }
        let base = self.cache.get(&key()).map(|object| object.meta().version());
        let writing = self.cache.begin_write(&key());
        let stored = self.stored.as_ref().map(|stored| stored.meta().version());
        if locked && base != stored {
            drop(writing);
            let events = self.cache.take_held_events();
            return self.handle_events(events);
        }
        let ours = |thing: &mut Thing| {
            thing.ours = value;
            thing.ours_by = true;
        };
        match &self.stored {
            Some(_) => self.commit(ours),
            None => self.create(ours),
        }
        self.known = Some((value, self.known.map_or(0, |(_, theirs)| theirs)));
        let response = to_value(&self.stored).unwrap();
        self.answers.push_back(Answer {
            writing,
            response,
            base,
            locked,
        });
    }

    fn answer(&mut self, lost: bool) {
        if let Some(answer) = self.answers.pop_front() {
            if lost {
                // A write without a response is an error, and the run is retried.
                drop(answer);
                self.reconcile();
            } else {
                let Answer { writing, .. } = answer;
                writing.record_write(&answer.response, made(answer.base, answer.locked));
            }
        }
        let events = self.cache.take_held_events();
        self.handle_events(events);
    }

    fn deliver(&mut self) {
        if let Some((there, thing)) = self.undelivered.pop_front() {
            let seen = DecodedObject::Object(Arc::new(thing));
            self.apply_update(if there {
                WatchUpdate::Put(seen)
            } else {
                WatchUpdate::Deleted(seen)
            });
        }
    }

    fn relist(&mut self) {
        self.undelivered.clear();
        let all = self.stored.iter().cloned();
        let all = all.map(|thing| DecodedObject::Object(Arc::new(thing))).collect();
        self.apply_update(WatchUpdate::Relisted(all, ResourceVersion::Number(self.version)));
    }

    fn apply_update(&mut self, news: WatchUpdate<Thing>) {
        let events = self.cache.apply_update(news);
        self.handle_events(events);
    }

    fn handle_events(&mut self, events: Vec<CacheEvent<Thing>>) {
        for event in events {
            if self.lens.evaluate(&event, "ours") == PredicateResult::Pass {
                self.passes += 1;
                self.reconcile();
            }
        }
    }

    fn reconcile(&mut self) {
        let seen = self.cache.get(&key());
        self.known = seen.map(|thing| (thing.ours, thing.theirs));
    }

    /// Delivers everything that is pending.
    fn settle(&mut self) {
        while !self.undelivered.is_empty() {
            self.deliver();
        }
        while !self.answers.is_empty() {
            self.answer(false);
        }
        self.act(&Act::Bookmark);
    }
}

fn key() -> ObjectKey {
    ObjectKey::new(None, "a")
}

fn meta(uid: u32, version: u64) -> ViewMeta {
    let version = version.to_string();
    let meta = json!({ "name": "a", "uid": format!("u{uid}"), "resourceVersion": version });
    from_value(meta).unwrap()
}

fn thing(uid: u32, version: u64) -> Thing {
    Thing {
        metadata: meta(uid, version),
        ours: 0,
        ours_by: true,
        theirs: 0,
        beside: 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn own_writes_pass_no_predicate(acts in acts(false, false)) {
        let mut model = Model::new(true);
        acts.iter().for_each(|act| model.act(act));
        model.settle();
        prop_assert_eq!(model.passes, 0);
    }

    #[test]
    fn locked_own_writes_pass_no_predicate_without_a_check(acts in acts(false, false)) {
        let mut model = Model::new(false);
        for act in &acts {
            let locked = Act::Write { value: 1, locked: true };
            model.act(if matches!(act, Act::Write { .. }) { &locked } else { act });
        }
        model.settle();
        prop_assert_eq!(model.passes, 0);
    }

    #[test]
    fn every_foreign_change_is_read(acts in acts(true, true), check: bool) {
        let mut model = Model::new(check);
        // Checked often, because the next change that is delivered makes up for one that was missed.
        for acts in acts.chunks(5) {
            acts.iter().for_each(|act| model.act(act));
            model.settle();
            let stored = model.stored.as_ref();
            prop_assert_eq!(model.known, stored.map(|thing| (thing.ours, thing.theirs)));
        }
    }

    #[test]
    fn a_reader_never_sees_a_view_older_than_its_own_write(acts in acts(true, false)) {
        let mut model = Model::new(true);
        for act in &acts {
            let written = match (act, model.answers.front()) {
                (Act::Answer { .. }, Some(answer)) => Some(answer.response.clone()),
                _ => None,
            };
            model.act(act);
            let Some(response) = written else { continue };
            let written: Thing = from_value(response).unwrap();
            let seen = model.cache.get(&key());
            let includes = seen.is_none_or(|seen| {
                seen.meta().version().includes(&written.meta().version()) == Some(true)
            });
            prop_assert!(includes);
        }
    }
}
