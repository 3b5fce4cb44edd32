//! The API groups a Kubernetes server brings with it, in the order discovery lists them.
//!
//! Requests for these groups pass through the server's router, those for all others through the
//! handler of custom resources; the two refuse requests in different words.

/// Highest priority first.
const GROUPS: [&str; 21] = [
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
];

/// Whether a group comes with the server.
#[must_use]
pub(super) fn is_builtin(group: &str) -> bool {
    GROUPS.contains(&group)
}

/// Where a group stands in discovery: low ranks first, equal ranks (all custom groups) by name.
#[must_use]
pub(super) fn rank(group: &str) -> usize {
    GROUPS.iter().position(|name| *name == group).unwrap_or(GROUPS.len())
}

/// Versions as discovery orders them: `v2`, `v1`, `v1beta2`, `v1beta1`, `v1alpha1`, then the rest
/// by name. A smaller key comes first.
#[must_use]
pub(super) fn version_key(version: &str) -> (u8, std::cmp::Reverse<u32>, std::cmp::Reverse<u32>, String) {
    use std::cmp::Reverse;
    let other = (3, Reverse(0), Reverse(0), version.to_owned());
    let Some(rest) = version.strip_prefix('v') else {
        return other;
    };
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let Ok(major) = rest[..digits].parse() else {
        return other;
    };
    let (stage, minor) = match &rest[digits..] {
        "" => return (0, Reverse(major), Reverse(0), String::new()),
        tail if tail.starts_with("beta") => (1, &tail[4..]),
        tail if tail.starts_with("alpha") => (2, &tail[5..]),
        _ => return other,
    };
    match minor.parse() {
        Ok(minor) => (stage, Reverse(major), Reverse(minor), String::new()),
        Err(_) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_maturity_then_number() {
        let mut versions = ["foo", "v1alpha1", "v1beta1", "v1", "v2", "v1beta2", "v11alpha2"];
        versions.sort_by_key(|version| version_key(version));
        assert_eq!(
            versions,
            ["v2", "v1", "v1beta2", "v1beta1", "v11alpha2", "v1alpha1", "foo"]
        );
    }
}
