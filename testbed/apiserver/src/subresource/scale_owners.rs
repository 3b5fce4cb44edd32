//! Who owns the replicas: between the owners of a whole object and those of its Scale, as the
//! server's `ScaleHandler` maps them.

use aplomb_structured_merge::managed::Managed;
use aplomb_structured_merge::path::PathElement;
use aplomb_structured_merge::set::Set;
use aplomb_structured_merge::update::VersionedSet;

const SCALE: &str = "autoscaling/v1";

/// Which versions of an object have replicas; entries of any other are forgotten.
#[derive(Debug)]
pub(super) struct Versions(pub(super) &'static [&'static str]);

fn replicas() -> [PathElement; 2] {
    [PathElement::field("spec"), PathElement::field("replicas")]
}

fn replicas_alone() -> Set {
    Set::of([replicas().as_slice()])
}

impl Versions {
    fn has_replicas(&self, owned: &VersionedSet) -> bool {
        self.0.contains(&owned.api_version.as_str()) && owned.set.has(&replicas())
    }

    /// The owners of the replicas, as owners of a Scale.
    pub(super) fn of_scale(&self, whole: &Managed) -> Managed {
        let mut scale = Managed::default();
        for (id, owned) in &whole.fields {
            if !self.has_replicas(owned) {
                continue;
            }
            let owned = VersionedSet {
                set: replicas_alone(),
                api_version: SCALE.to_owned(),
                applied: owned.applied,
            };
            scale.fields.insert(id.clone(), owned);
            if let Some(time) = whole.times.get(id) {
                scale.times.insert(id.clone(), time.clone());
            }
        }
        scale
    }

    /// The owners of the whole object once its Scale has these; `version` is that of the request.
    pub(super) fn of_whole(&self, whole: &Managed, mut scale: Managed, version: &str) -> Managed {
        let mut merged = Managed::default();
        for (id, owned) in &whole.fields {
            if !self.0.contains(&owned.api_version.as_str()) {
                continue;
            }
            let mut owned = owned.clone();
            if self.has_replicas(&owned) && scale.fields.remove(id).is_none() {
                owned.set = owned.set.difference(&replicas_alone());
                if owned.set.is_empty() {
                    continue;
                }
            }
            merged.fields.insert(id.clone(), owned);
            if let Some(time) = whole.times.get(id) {
                merged.times.insert(id.clone(), time.clone());
            }
        }
        for (id, owned) in scale.fields {
            if !owned.set.has(&replicas()) {
                continue;
            }
            // Whoever came by the Scale leaves no time.
            let owned = VersionedSet {
                set: replicas_alone(),
                api_version: version.to_owned(),
                applied: owned.applied,
            };
            merged.fields.insert(id, owned);
        }
        merged
    }
}
