//! Conflicts between an applier and the other owners of its fields, in the server's words.

use aplomb_go_compat as go;

use super::managed::ManagerId;
use super::path::{PathElement, path_text};

/// One field that somebody else owns with another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Its owner.
    pub manager: ManagerId,
    /// The field.
    pub path: Vec<PathElement>,
}

/// What went into the message and what into `details.causes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// `conflict with "a" using v1`.
    pub message: String,
    /// `.spec.replicas`.
    pub field: String,
}

impl Conflict {
    /// The cause in `details.causes`.
    #[must_use]
    pub fn cause(&self) -> Cause {
        Cause {
            message: format!("conflict with {}", owner(&self.manager)),
            field: path_text(&self.path),
        }
    }
}

/// The message of the refusal.
#[must_use]
pub fn message(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        return format!(
            "Apply failed with 1 conflict: conflict with {}: {}",
            owner(&only.manager),
            path_text(&only.path)
        );
    }
    let mut managers: Vec<&ManagerId> = conflicts.iter().map(|conflict| &conflict.manager).collect();
    managers.sort_by_cached_key(|manager| manager.identifier());
    managers.dedup();
    let mut lines = Vec::new();
    for manager in managers {
        lines.push(format!("conflicts with {}:", owner(manager)));
        for conflict in conflicts.iter().filter(|conflict| &conflict.manager == manager) {
            lines.push(format!("- {}", path_text(&conflict.path)));
        }
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

/// An owner's version matters only for updates: an applier is the same in all versions.
fn owner(manager: &ManagerId) -> String {
    let mut text = go::quote(&manager.manager);
    if !manager.subresource.is_empty() {
        text = format!("{text} with subresource {}", go::quote(&manager.subresource));
    }
    if manager.operation == "Update" {
        text = format!("{text} using {}", manager.api_version);
    }
    text
}
