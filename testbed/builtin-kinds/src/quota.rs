//! Limit ranges and resource quotas: what may be asked for in a namespace.

mod limits;
mod resources;

use aplomb_apimachinery::resource::Part;
use jiff::Timestamp;
use serde_json::Value;

use super::behavior::KindBehavior;
use super::pods::defaults::resource_list;
use super::print::{age, name, name_and_creation};
use super::quantity::Quantity;
use super::value::{at, members, text};

/// How limit ranges behave.
pub(super) const LIMIT_RANGE: KindBehavior = KindBehavior {
    default: limits::default,
    validate: limits::validate,
    create_on_update: true,
    cells: name_and_creation,
    ..KindBehavior::PLAIN
};

/// How resource quotas behave.
pub(super) const RESOURCE_QUOTA: KindBehavior = KindBehavior {
    default: |quota| {
        for path in [["spec", "hard"], ["status", "hard"], ["status", "used"]] {
            resource_list(quota, &path);
        }
    },
    validate: |quota| resources::spec(at(quota, &["spec"])),
    validate_update: |new, old, part| match part {
        Part::Main => resources::update(new, old),
        Part::Status => resources::status(new),
    },
    validates_updates: false,
    warnings: over_limits,
    update_warnings: |_, _| Vec::new(),
    cells: quota_cells,
    ..KindBehavior::PLAIN
};

fn quota_cells(quota: &Value, now: Timestamp) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in members(quota, &["status", "hard"]) {
        let used = match text(quota, &["status", "used", resource]) {
            "" => "0",
            used => used,
        };
        let shown = format!("{resource}: {used}/{}", hard.as_str().unwrap_or("0"));
        if resource.starts_with("limits.") {
            limits.push(shown);
        } else {
            requests.push(shown);
        }
    }
    vec![
        name(quota),
        requests.join(", ").into(),
        limits.join(", ").into(),
        age(quota, now),
    ]
}

/// More may be asked for than may be used.
fn over_limits(quota: &Value) -> Vec<String> {
    let hard = |name: &str| {
        let amount = text(quota, &["spec", "hard", name]);
        Quantity::parse(amount).ok().filter(|_| !amount.is_empty())
    };
    let mut warnings = Vec::new();
    for resource in ["cpu", "memory", "storage", "ephemeral-storage"] {
        let prefixed = format!("requests.{resource}");
        let plain = matches!(resource, "cpu" | "memory").then(|| resource.to_owned());
        let asked = [Some(prefixed), plain]
            .into_iter()
            .flatten()
            .find_map(|name| hard(&name).map(|amount| (name, amount)));
        let limit = format!("limits.{resource}");
        if let (Some((name, asked)), Some(most)) = (asked, hard(&limit))
            && asked > most
        {
            warnings.push(format!(
                "ResourceQuota {name} ({asked}) should be less than {limit} ({most})"
            ));
        }
    }
    warnings
}
