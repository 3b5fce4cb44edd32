//! Which key an object wants, and whether the one it has is that one.

use std::collections::BTreeMap;

use aplomb_api::coder::{
    CoderProvisioner, CoderProvisionerStatus, KeyRecord, RotationStatus, SecretKeyRef, annotations,
    key_name, unsuffixed_key_name, truncate_name,
};
use kube::ResourceExt;
use sha2::{Digest, Sha256};

use crate::access::{Access, hex};
use crate::client::Organization;
use crate::provisioner::world::Observed;
use crate::times::elapsed;

/// The longest name of a Secret.
const LONGEST: usize = 253;

/// The key that the spec asks for.
#[derive(Clone, Debug)]
pub(super) struct DesiredKey<'a> {
    pub(super) base: String,
    /// Of the object, which marks the names of its keys.
    pub(super) uid: String,
    pub(super) tags_hash: String,
    pub(super) organization: &'a Organization,
    pub(super) access: &'a Access,
}

/// Why a new key is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RotationReason {
    First,
    SecretLost,
    KeyVanished,
    TagsChanged,
    NameChanged,
    OrganizationChanged,
    ServerChanged,
    Asked,
    Aged,
}

impl RotationReason {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::First => "First",
            Self::SecretLost => "SecretLost",
            Self::KeyVanished => "KeyVanished",
            Self::TagsChanged => "TagsChanged",
            Self::NameChanged => "NameChanged",
            Self::OrganizationChanged => "OrganizationChanged",
            Self::ServerChanged => "ServerChanged",
            Self::Asked => "Asked",
            Self::Aged => "Aged",
        }
    }

    /// For people.
    pub(super) const fn story(self) -> &'static str {
        match self {
            Self::First => "there is none yet",
            Self::SecretLost => "the Secret no longer holds the one in use",
            Self::KeyVanished => "the one in use was deleted at the server by somebody else",
            Self::TagsChanged => "spec.tags changed, and a key's tags cannot be",
            Self::NameChanged => "spec.key.name changed",
            Self::OrganizationChanged => "spec.organizationName changed",
            Self::ServerChanged => "the server changed",
            Self::Asked => "the annotation coder.aplomb.dev/rotate asks for it",
            Self::Aged => "the one in use is as old as spec.key.rotateAfter allows",
        }
    }
}

impl<'a> DesiredKey<'a> {
    pub(super) fn new(
        world: &Observed,
        access: &'a Access,
        organization: &'a Organization,
    ) -> Self {
        Self {
            base: base(&world.object),
            uid: world.object.uid().unwrap_or_default(),
            tags_hash: tags_hash(&world.object.spec.tags),
            organization,
            access,
        }
    }

    /// Whether `key` is on the server and in the organisation that are wanted.
    pub(super) fn place_of(&self, key: &KeyRecord) -> bool {
        key.binding.server_url == self.access.url && key.organization_id == self.organization.id
    }

    /// The name of the key of this number.
    pub(super) fn name(&self, number: u32) -> String {
        key_name(&self.base, &self.uid, number)
    }

    /// Whether `name` is one of this base's, up to the `last`: also one that was taken over, or made before
    /// names were marked.
    pub(super) fn named(&self, name: &str, last: u32) -> bool {
        (0..=last).any(|it| self.name(it) == name || unsuffixed_key_name(&self.base, it) == name)
    }

    /// Whether a key that is about to be made is still the one that is wanted.
    pub(super) fn fits(&self, key: &KeyRecord, status: &CoderProvisionerStatus) -> bool {
        self.place_of(key)
            && key.tags_hash == self.tags_hash
            && self.named(&key.name, status.rotation.sequence)
    }

    /// What the spec wants otherwise than `key` is.
    pub(super) fn drift(
        &self,
        key: &KeyRecord,
        rotation: &RotationStatus,
        world: &Observed,
    ) -> Option<RotationReason> {
        if key.binding.server_url != self.access.url {
            return Some(RotationReason::ServerChanged);
        }
        if key.organization_id != self.organization.id {
            return Some(RotationReason::OrganizationChanged);
        }
        if !self.named(&key.name, rotation.sequence) {
            return Some(RotationReason::NameChanged);
        }
        if key.tags_hash != self.tags_hash {
            return Some(RotationReason::TagsChanged);
        }
        if asked(world).is_some() && asked(world) != rotation.honoured {
            return Some(RotationReason::Asked);
        }
        let oldest = world.object.spec.key.rotate_after;
        let aged = oldest.is_some_and(|span| elapsed(&key.since, world.now) >= span.0);
        aged.then_some(RotationReason::Aged)
    }
}

/// The value of the annotation that asks for a rotation.
pub(super) fn asked(world: &Observed) -> Option<String> {
    world.object.annotations().get(annotations::ROTATE).cloned()
}

/// The names that an object has used or may use next.
pub(crate) fn names(object: &CoderProvisioner, sequence: u32) -> impl Iterator<Item = String> {
    let (base, uid) = (base(object), object.uid().unwrap_or_default());
    (0..=sequence + 2).map(move |number| key_name(&base, &uid, number))
}

/// The name of the first key.
fn base(object: &CoderProvisioner) -> String {
    let own = object.spec.key.name.clone();
    own.unwrap_or_else(|| object.name_any())
}

/// What tells sets of tags apart.
pub(crate) fn tags_hash(tags: &BTreeMap<String, String>) -> String {
    let mut digest = Sha256::new();
    for (key, value) in tags {
        digest.update(key.as_bytes());
        digest.update([0]);
        digest.update(value.as_bytes());
        digest.update([0]);
    }
    hex(&digest.finalize(), 12)
}

/// Where the key is put.
pub(crate) fn secret_ref(object: &CoderProvisioner) -> SecretKeyRef {
    let key = &object.spec.key;
    let usual = || truncate_name(&format!("{}-provisioner-key", object.name_any()), LONGEST);
    SecretKeyRef {
        name: key.secret_name.clone().unwrap_or_else(usual),
        key: key.secret_key.clone().unwrap_or_else(|| "key".to_owned()),
    }
}
