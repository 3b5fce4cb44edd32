//! Workspace proxies: list, register, change, give a new token, take away.

use http::{Method, StatusCode};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::api::{Answer, Call, not_allowed, ok};
use super::core::CoderdCore;
use super::error::ApiError;
use super::json;
use super::model::{PRIMARY, Proxy};
use super::users::Role;

#[derive(Default, Deserialize)]
#[serde(default)]
struct New {
    name: String,
    display_name: String,
    icon: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Patch {
    id: String,
    name: String,
    display_name: String,
    icon: String,
    regenerate_token: bool,
}

impl CoderdCore {
    /// Everything under `/workspaceproxies`, once the licence is known to allow it.
    pub(super) fn proxies(&mut self, call: &Call<'_>, rest: &[&str]) -> Answer {
        let user = call.signed_in()?;
        let owner = user.role == Role::Owner;
        let word = match rest {
            [] if call.method == Method::GET => return ok(self.list_proxies(call)),
            [] if call.method == Method::POST => return self.create_proxy(call, owner),
            [] => return Err(not_allowed()),
            [word] => word,
            _ => return Err(ApiError::no_route()),
        };
        let at = self.store.proxy_at(word).ok_or_else(ApiError::missing)?;
        match *call.method {
            Method::GET => ok(self.show_proxy(call, &self.store.proxies[at])),
            Method::PATCH => self.patch_proxy(call, owner, at),
            Method::DELETE => self.delete_proxy(call.now, owner, at),
            _ => Err(not_allowed()),
        }
    }

    fn show_proxy(&self, call: &Call<'_>, proxy: &Proxy) -> Value {
        json::proxy(proxy, self.proxy_servers.health(proxy), call.now)
    }

    fn list_proxies(&self, call: &Call<'_>) -> Value {
        let all = self.store.proxies.iter().filter(|it| !it.deleted);
        let shown: Vec<Value> = all.map(|proxy| self.show_proxy(call, proxy)).collect();
        json!({"regions": shown})
    }

    fn create_proxy(&mut self, call: &Call<'_>, owner: bool) -> Answer {
        let new: New = call.read()?;
        if new.name.is_empty() {
            return Err(ApiError::required(&["name"]));
        }
        if new.name.eq_ignore_ascii_case(PRIMARY) {
            let message = "The name \"primary\" is reserved for the primary region.";
            return Err(ApiError::field("name", message));
        }
        if !owner {
            return Err(ApiError::internal("unauthorized"));
        }
        if self.store.has_proxy(&new.name, None) {
            let name = &new.name;
            let message = format!("Workspace proxy with name \"{name}\" already exists.");
            return Err(ApiError::new(StatusCode::CONFLICT, message));
        }
        let id = self.store.id();
        let (token, token_sha256) = self.store.proxy_token(&id);
        let proxy = Proxy {
            name: new.name,
            display_name: new.display_name,
            icon: new.icon,
            token_sha256,
            ..Proxy::default()
        };
        let proxy = proxy.complete(call.now, || id);
        let shown = self.show_proxy(call, &proxy);
        self.store.proxies.push(proxy);
        let body = json!({"proxy": shown, "proxy_token": token});
        Ok((StatusCode::CREATED, Some(body)))
    }

    fn patch_proxy(&mut self, call: &Call<'_>, owner: bool, at: usize) -> Answer {
        let patch: Patch = call.read()?;
        let given = [
            ("id", &patch.id),
            ("name", &patch.name),
            ("display_name", &patch.display_name),
            ("icon", &patch.icon),
        ];
        let missing = given.into_iter().filter(|(_, value)| value.is_empty());
        let missing: Vec<_> = missing.map(|(field, _)| field).collect();
        if !missing.is_empty() {
            return Err(ApiError::required(&missing));
        }
        if !is_uuid(&patch.id) {
            return Err(ApiError::bad_json("invalid UUID"));
        }
        if !owner {
            return Err(ApiError::missing());
        }
        // A deleted one is changed all the same; its new token is worth nothing.
        if self.store.has_proxy(&patch.name, Some(at)) {
            return Err(ApiError::internal("the name is taken"));
        }
        let id = self.store.proxies[at].id.clone();
        let renewed = patch.regenerate_token.then(|| self.store.proxy_token(&id));
        let proxy = &mut self.store.proxies[at];
        proxy.name = patch.name;
        proxy.display_name = patch.display_name;
        proxy.icon = patch.icon;
        proxy.updated_at = Some(call.now);
        let token = match renewed {
            Some((token, digest)) => {
                proxy.token_sha256 = digest;
                token
            }
            None => String::new(),
        };
        let shown = self.show_proxy(call, &self.store.proxies[at]);
        ok(json!({"proxy": shown, "proxy_token": token}))
    }

    fn delete_proxy(&mut self, now: Timestamp, owner: bool, at: usize) -> Answer {
        if self.store.proxies[at].name == PRIMARY {
            let message = "Cannot delete primary proxy";
            return Err(ApiError::new(StatusCode::BAD_REQUEST, message));
        }
        if !owner {
            return Err(ApiError::missing());
        }
        let proxy = &mut self.store.proxies[at];
        (proxy.deleted, proxy.updated_at) = (true, Some(now));
        ok(json!({"message": "Proxy has been deleted!"}))
    }
}

fn is_uuid(text: &str) -> bool {
    let lengths = text.split('-').map(str::len);
    let hex = |sign: char| sign == '-' || sign.is_ascii_hexdigit();
    text.chars().all(hex) && lengths.eq([8, 4, 4, 4, 12])
}
