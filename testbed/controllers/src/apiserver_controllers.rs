//! What the API server keeps up to date by itself, without any controller manager: whether flow
//! schemas have their level, who answers for a group version, which addresses are given out.
//!
//! Each is a controller of its own. None of them decides anything about a request.

mod addresses;
mod definitions;
mod flows;
mod registrations;

pub(super) use addresses::Addresses;
pub(super) use definitions::Definitions;
pub(super) use flows::FlowSchemas;
pub(super) use registrations::Registrations;

use serde_json::Value;

use aplomb_apimachinery::object;
use aplomb_apimachinery::status::GroupResource;
use aplomb_apiserver::storage::Key;

const REGISTRATION: &str = "apiregistration.k8s.io";

fn place(group: &str, plural: &str, namespace: &str, name: &str) -> Key {
    Key {
        resource: GroupResource::new(group, plural),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

/// Whether `object` says of itself what `condition` says.
fn says(object: &Value, condition: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut same = conditions.into_iter().flatten();
    same.any(|there| {
        ["type", "status", "reason", "message"]
            .iter()
            .all(|member| object::text(there, member) == object::text(condition, member))
    })
}
