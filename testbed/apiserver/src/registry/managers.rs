//! Who owns which field: the place where the verbs meet `merge`.

use std::sync::Arc;

use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::Part;
use aplomb_apimachinery::status::ApiError;
use aplomb_structured_merge::{FieldManager, Writer};
use serde_json::Value;

use crate::call::Call;
use crate::mutation::Rule;
use crate::ownership;
use crate::server::ApiServer;

/// The name of a manager taken from a user agent is cut to this.
const MANAGER_LIMIT: usize = 128;

/// Field management for one call.
#[derive(Debug)]
pub(super) struct Managers {
    manager: Arc<FieldManager>,
    name: String,
    api_version: String,
    subresource: &'static str,
    time: String,
    keeps_dropped: bool,
}

impl Managers {
    pub(super) fn of(server: &ApiServer, call: &Call) -> Self {
        let stated = call
            .options
            .field_manager
            .clone()
            .filter(|name| !name.is_empty());
        Self {
            manager: server.field_manager(&call.resource),
            name: stated.unwrap_or_else(|| from_user_agent(&call.user_agent)),
            api_version: call.resource.api_version(),
            subresource: match (&call.view, call.part) {
                (Some(view), _) => view.name(),
                (None, Part::Status) => "status",
                (None, Part::Main) => "",
            },
            time: server.clock().now_seconds(),
            keeps_dropped: server.broken(Rule::SsaPrune),
        }
    }

    /// The same for what is written through a subresource.
    pub(super) fn through(self, subresource: &'static str) -> Self {
        Self {
            subresource,
            ..self
        }
    }

    fn writer(&self) -> Writer<'_> {
        Writer {
            manager: &self.name,
            api_version: &self.api_version,
            subresource: self.subresource,
            time: &self.time,
        }
    }

    /// The object with its owners after a write that is not an apply.
    pub(super) fn update(&self, live: Option<&Value>, object: Value) -> Value {
        self.manager.update(live, object, &self.writer())
    }

    /// What an apply makes of the live object.
    pub(super) fn apply(
        &self,
        live: Option<&Value>,
        applied: &Value,
        force: bool,
    ) -> Result<Value, ApiError> {
        let merged = self.manager.apply(live, applied, &self.writer(), force);
        let mut merged = merged.map_err(ownership::refused)?;
        if let Some(live) = live.filter(|_| self.keeps_dropped) {
            let owners =
                object::metadata(&merged).and_then(|meta| meta.get("managedFields").cloned());
            let mut kept = live.clone();
            json_patch::merge(&mut kept, &merged);
            object::set_or_remove(&mut kept, "managedFields", owners);
            merged = kept;
        }
        Ok(merged)
    }
}

/// The user agent up to its first slash, printable and not too long.
fn from_user_agent(user_agent: &str) -> String {
    let first = user_agent.split('/').next().unwrap_or_default();
    let mut name = String::new();
    for c in first.chars().filter(|c| !c.is_control()) {
        if name.len() + c.len_utf8() > MANAGER_LIMIT {
            break;
        }
        name.push(c);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_agent_up_to_its_slash_is_the_manager() {
        assert_eq!(from_user_agent("kubectl/v1.36.4 (linux/amd64)"), "kubectl");
        assert_eq!(from_user_agent("a\nb"), "ab");
        assert_eq!(from_user_agent(&"x".repeat(200)).len(), 128);
    }
}
