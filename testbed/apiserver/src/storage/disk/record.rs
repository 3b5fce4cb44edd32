//! One write as bytes: when, where and what was there before.
//!
//! What was written is not in the record: it is the object itself, or what the next record of the
//! same key says was there before. So every state is on disk once.

use aplomb_apimachinery::status::GroupResource;
use jiff::Timestamp;

use crate::storage::Key;

/// A write, read back.
#[derive(Debug)]
pub(super) struct Record<'a> {
    pub(super) at: Timestamp,
    pub(super) place: &'a str,
    /// The object before, as JSON; `None` for a creation.
    pub(super) old: Option<&'a [u8]>,
}

pub(super) fn encode(at: Timestamp, place: &str, old: Option<&[u8]>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(24 + place.len() + old.map_or(0, <[u8]>::len));
    bytes.extend(at.as_nanosecond().to_le_bytes());
    bytes.extend((place.len() as u64).to_le_bytes());
    bytes.extend(place.as_bytes());
    // An object is never empty, so nothing at all is a creation.
    bytes.extend(old.unwrap_or_default());
    bytes
}

/// `None` for bytes that no write left.
pub(super) fn decode(bytes: &[u8]) -> Option<Record<'_>> {
    let (at, rest) = bytes.split_first_chunk::<16>()?;
    let (length, rest) = rest.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (place, old) = rest.split_at_checked(length)?;
    Some(Record {
        at: Timestamp::from_nanosecond(i128::from_le_bytes(*at)).ok()?,
        place: std::str::from_utf8(place).ok()?,
        old: (!old.is_empty()).then_some(old),
    })
}

/// Where an object is kept on disk: group, resource and path, none of which holds a slash but the
/// path, between namespace and name.
pub(super) fn place(key: &Key) -> String {
    format!("{}/{}", resource_place(&key.resource), key.path())
}

pub(super) fn resource_place(resource: &GroupResource) -> String {
    format!("{}/{}", resource.group, resource.resource)
}

pub(super) fn key(place: &str) -> Option<Key> {
    let mut parts = place.splitn(3, '/');
    let resource = GroupResource::new(parts.next()?, parts.next()?);
    Some(Key::at(&resource, parts.next()?))
}

pub(super) fn resource(place: &str) -> Option<GroupResource> {
    let (group, resource) = place.split_once('/')?;
    Some(GroupResource::new(group, resource))
}
