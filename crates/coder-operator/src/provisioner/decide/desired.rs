//! Which key an object wants, and whether the one it has is that one.

use std::collections::BTreeMap;

use aplomb_api::coder::{
    CoderProvisioner, CoderProvisionerStatus, KeyRecord, RotationStatus, SecretKeyRef, annotations, key_name,
    truncate_name, unsuffixed_key_name,
};
use kube::ResourceExt;
use sha2::{Digest, Sha256};

use crate::access::{Access, hex};
use crate::client::Organization;
use crate::conditions::elapsed;
use crate::provisioner::Observed;

/// The longest name of a Secret.
const MAX_NAME: usize = 253;

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
    Requested,
    Aged,
}

impl RotationReason {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::First => "First",
            Self::SecretLost => "SecretLost",
            Self::KeyVanished => "KeyVanished",
            Self::TagsChanged => "TagsChanged",
            Self::NameChanged => "NameChanged",
            Self::OrganizationChanged => "OrganizationChanged",
            Self::ServerChanged => "ServerChanged",
            Self::Requested => "Asked",
            Self::Aged => "Aged",
        }
    }

    /// For people.
    pub(super) const fn description(self) -> &'static str {
        match self {
            Self::First => "no key yet",
            Self::SecretLost => "the Secret no longer has the key in use",
            Self::KeyVanished => "the key in use was deleted on the server",
            Self::TagsChanged => "spec.tags changed",
            Self::NameChanged => "spec.key.name changed",
            Self::OrganizationChanged => "spec.organizationName changed",
            Self::ServerChanged => "the server changed",
            Self::Requested => "requested by the annotation coder.aplomb.dev/rotate",
            Self::Aged => "the key in use has reached spec.key.rotateAfter",
        }
    }
}

impl<'a> DesiredKey<'a> {
    pub(super) fn new(world: &Observed, access: &'a Access, organization: &'a Organization) -> Self {
        Self {
            base: base_name(&world.object),
            uid: world.object.uid().unwrap_or_default(),
            tags_hash: tags_hash(&world.object.spec.tags),
            organization,
            access,
        }
    }

    /// Whether `key` is on the server and in the organization that are wanted.
    pub(super) fn matches_scope(&self, key: &KeyRecord) -> bool {
        key.binding.server_url == self.access.url && key.organization_id == self.organization.id
    }

    /// The name of the key of this number.
    pub(super) fn key_name(&self, number: u32) -> String {
        key_name(&self.base, &self.uid, number)
    }

    /// Whether `name` is one of this base's, up to the `last`: also one that was taken over, or made before
    /// names were marked.
    pub(super) fn is_own_name(&self, name: &str, last: u32) -> bool {
        (0..=last).any(|it| self.key_name(it) == name || unsuffixed_key_name(&self.base, it) == name)
    }

    /// Whether a key that is about to be made is still the one that is wanted.
    pub(super) fn matches_pending(&self, key: &KeyRecord, status: &CoderProvisionerStatus) -> bool {
        self.matches_scope(key)
            && key.tags_hash == self.tags_hash
            && self.is_own_name(&key.name, status.rotation.sequence)
    }

    /// What the spec wants otherwise than `key` is.
    pub(super) fn rotation_reason(
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
        if !self.is_own_name(&key.name, rotation.sequence) {
            return Some(RotationReason::NameChanged);
        }
        if key.tags_hash != self.tags_hash {
            return Some(RotationReason::TagsChanged);
        }
        if requested_rotation(world).is_some() && requested_rotation(world) != rotation.honoured {
            return Some(RotationReason::Requested);
        }
        let oldest = world.object.spec.key.rotate_after;
        let aged = oldest.is_some_and(|span| elapsed(&key.since, world.now) >= span.0);
        aged.then_some(RotationReason::Aged)
    }
}

/// The value of the annotation that asks for a rotation.
pub(super) fn requested_rotation(world: &Observed) -> Option<String> {
    world.object.annotations().get(annotations::ROTATE).cloned()
}

/// The names that an object has used or may use next.
pub(crate) fn candidate_names(object: &CoderProvisioner, sequence: u32) -> impl Iterator<Item = String> {
    let (base, uid) = (base_name(object), object.uid().unwrap_or_default());
    (0..=sequence + 2).map(move |number| key_name(&base, &uid, number))
}

/// The name of the first key.
fn base_name(object: &CoderProvisioner) -> String {
    object.spec.key.name.clone().unwrap_or_else(|| object.name_any())
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
    let usual = || truncate_name(&format!("{}-provisioner-key", object.name_any()), MAX_NAME);
    SecretKeyRef {
        name: key.secret_name.clone().unwrap_or_else(usual),
        key: key.secret_key.clone().unwrap_or_else(|| "key".to_owned()),
    }
}
