//! coderd's JSON: what clients see of what is kept.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::config::Version;
use super::daemons::Row;
use super::model::{Key, Organization, PRIMARY, Proxy, RESERVED};
use super::store::Store;
use super::users::{User, id_of};

/// The time of what has none, in Go.
const NO_TIME: &str = "0001-01-01T00:00:00Z";

pub(super) fn build(version: Version, agpl: bool) -> Value {
    json!({
        "version": version.to_string(),
        "dashboard_url": "http://coder.example.com",
        "workspace_proxy": false,
        "agpl": agpl,
        "deployment_id": id_of("deployment"),
    })
}

pub(super) fn organization(store: &Store, organization: &Organization) -> Value {
    let default = store.organizations.first();
    json!({
        "id": organization.id,
        "name": organization.name,
        "display_name": organization.name,
        "description": "",
        "icon": "",
        "created_at": store.since,
        "updated_at": store.since,
        "is_default": default == Some(organization),
    })
}

pub(super) fn user(store: &Store, user: &User) -> Value {
    let organizations = store.organizations.iter().filter(|it| user.sees(&it.name));
    let organizations: Vec<&str> = organizations.map(|it| it.id.as_str()).collect();
    let roles = match user.role {
        super::users::Role::Member => Vec::new(),
        role => vec![json!({"name": role.name(), "display_name": role.name()})],
    };
    json!({
        "id": user.id,
        "username": user.name,
        "name": user.name,
        "email": format!("{}@example.com", user.name),
        "created_at": store.since,
        "updated_at": store.since,
        "last_seen_at": store.since,
        "status": "active",
        "login_type": "password",
        "organization_ids": organizations,
        "roles": roles,
    })
}

pub(super) fn key(key: &Key, organization: &Organization) -> Value {
    json!({
        "id": key.id,
        "created_at": key.created_at,
        "organization": organization.id,
        "name": key.name,
        "tags": key.tags,
    })
}

/// The keys that the server keeps for itself, and shows beside their daemons only.
pub(super) fn reserved_keys(organization: &Organization, default: bool) -> Vec<Value> {
    let names = RESERVED.iter().filter(|name| default || **name == "user-auth");
    names
        .map(|name| {
            json!({
                "id": id_of(&format!("provisioner key {name}")),
                "created_at": NO_TIME,
                "organization": organization.id,
                "name": name,
                "tags": {},
            })
        })
        .collect()
}

pub(super) fn daemon(id: u64, row: &Row, key: &Key, organization: &Organization) -> Value {
    json!({
        "id": id_of(&format!("daemon {id}")),
        "organization_id": organization.id,
        "key_id": key.id,
        "key_name": key.name,
        "created_at": row.created,
        "last_seen_at": row.seen,
        "name": row.name,
        "version": "v2.36.0",
        "api_version": "1.0",
        "provisioners": ["terraform"],
        "tags": key.tags,
        "status": if row.busy { "busy" } else { "idle" },
    })
}

pub(super) fn proxy(proxy: &Proxy, health: &str, now: Timestamp) -> Value {
    let errors: Vec<&str> = match health {
        "unhealthy" => vec!["the token of the proxy is invalid"],
        _ => Vec::new(),
    };
    let url = match proxy.registered {
        true => format!("https://{}.example.com", proxy.name),
        false => String::new(),
    };
    json!({
        "id": proxy.id,
        "name": proxy.name,
        "display_name": proxy.display_name,
        "icon_url": proxy.icon,
        "healthy": health == "ok",
        "path_app_url": url,
        "wildcard_hostname": "",
        "derp_enabled": proxy.name != PRIMARY,
        "derp_only": false,
        "status": {
            "status": health,
            "report": {"errors": errors, "warnings": []},
            "checked_at": now,
        },
        "created_at": proxy.created_at,
        "updated_at": proxy.updated_at,
        "deleted": proxy.deleted,
        "version": "v2.36.0",
    })
}

pub(super) fn entitlements(licensed: bool, now: Timestamp) -> Value {
    let feature = || {
        let word = if licensed { "entitled" } else { "not_entitled" };
        json!({"entitlement": word, "enabled": licensed})
    };
    json!({
        "features": {
            "external_provisioner_daemons": feature(),
            "workspace_proxy": feature(),
            "multiple_organizations": feature(),
        },
        "warnings": [],
        "errors": [],
        "has_license": licensed,
        "trial": false,
        "require_telemetry": false,
        "refreshed_at": now,
    })
}
