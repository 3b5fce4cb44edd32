//! Provisioner keys: list, create, delete, and the daemons behind each.

use std::collections::BTreeMap;

use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use super::api::{Answer, Call};
use super::core::CoderdCore;
use super::error::ApiError;
use super::json;
use super::model::{Organization, RESERVED};
use super::users::User;

/// Longest name of a key, in bytes.
const LONGEST: usize = 64;
/// As many heartbeats may be missing before a daemon is no longer shown.
const STALE: i32 = 3;

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct New {
    name: String,
    tags: Option<BTreeMap<String, String>>,
}

impl CoderdCore {
    pub(super) fn list_keys(&self, organization: &Organization) -> Value {
        let mut keys: Vec<_> = self.store.keys_of(&organization.name).collect();
        keys.sort_by_key(|key| key.created_at);
        let shown: Vec<Value> = keys.into_iter().map(|key| json::key(key, organization)).collect();
        json!(shown)
    }

    pub(super) fn create_key(&mut self, call: &Call<'_>, user: &User, organization: &Organization) -> Answer {
        let new: New = call.read()?;
        check_name(&new.name)?;
        if !user.manages_keys() {
            return Err(ApiError::internal("unauthorized"));
        }
        if self.store.key(&organization.name, &new.name).is_some() {
            let name = &new.name;
            let message = format!("Provisioner key with name '{name}' already exists in organization");
            return Err(ApiError::new(StatusCode::CONFLICT, message));
        }
        let tags = new.tags.unwrap_or_default();
        let store = &mut self.store;
        let secret = store.add_key(call.now, &organization.name, &new.name, tags);
        Ok((StatusCode::CREATED, Some(json!({"key": secret}))))
    }

    pub(super) fn delete_key(
        &mut self,
        call: &Call<'_>,
        user: &User,
        organization: &Organization,
        name: &str,
    ) -> Answer {
        if is_reserved(name) {
            let message = format!("Cannot delete reserved '{name}' provisioner key");
            return Err(ApiError::new(StatusCode::BAD_REQUEST, message));
        }
        let key = self.store.key(&organization.name, name);
        let id = key.ok_or_else(ApiError::missing)?.id.clone();
        if !user.manages_keys() {
            return Err(ApiError::internal("unauthorized"));
        }
        self.drop_key(call.now, &id);
        Ok((StatusCode::NO_CONTENT, None))
    }

    /// Takes a key away, and with it what its daemons live on.
    pub(super) fn drop_key(&mut self, now: Timestamp, id: &str) -> bool {
        let Some(key) = self.store.remove_key(id) else {
            return false;
        };
        self.daemons.key_gone(now, &key, self.config.ends_sessions);
        true
    }

    pub(super) fn list_daemons(&self, now: Timestamp, organization: &Organization) -> Value {
        let stale = SignedDuration::try_from(self.daemons.heartbeat).unwrap_or_default() * STALE;
        let default = self.store.organizations.first() == Some(organization);
        let mut all: Vec<Value> = json::reserved_keys(organization, default)
            .into_iter()
            .map(|key| json!({"key": key, "daemons": []}))
            .collect();
        for key in self.store.keys_of(&organization.name) {
            let rows = self.daemons.rows.iter();
            let rows = rows.filter(|(_, row)| row.key == key.id);
            let recent = rows.filter(|(_, row)| now.duration_since(row.seen) <= stale);
            let daemons: Vec<Value> = recent
                .map(|(id, row)| json::daemon(*id, row, key, organization))
                .collect();
            all.push(json!({"key": json::key(key, organization), "daemons": daemons}));
        }
        json!(all)
    }
}

fn is_reserved(name: &str) -> bool {
    RESERVED.iter().any(|it| it.eq_ignore_ascii_case(name))
}

fn check_name(name: &str) -> Result<(), ApiError> {
    if name.is_empty() {
        Err(ApiError::field("name", "Name is required"))
    } else if name.len() > LONGEST {
        let message = "Name must be at most 64 characters";
        Err(ApiError::field("name", message))
    } else if is_reserved(name) {
        let message = format!("Name cannot be reserved name '{name}'");
        Err(ApiError::field("name", message))
    } else {
        Ok(())
    }
}
