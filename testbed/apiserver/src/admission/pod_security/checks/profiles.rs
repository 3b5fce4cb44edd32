//! What confines a container: AppArmor, SELinux, seccomp.

use std::collections::BTreeSet;

use aplomb_apimachinery::field::go_quote;
use serde_json::Value;

use super::super::pod::{Pod, string};
use super::super::words::{self, Setters, plural, silent};
use super::Violation;

const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// Types of SELinux, and since when they may be set.
const TYPES: [(&str, i64); 5] = [
    ("", 0),
    ("container_engine_t", 31),
    ("container_init_t", 0),
    ("container_kvm_t", 0),
    ("container_t", 0),
];

/// The type of a profile that does not confine; nothing where no profile is set.
fn unconfined<'a>(context: &'a Value, profile: &str) -> Option<&'a str> {
    let profile = context.get(profile).filter(|it| !it.is_null())?;
    let kind = string(&profile["type"]);
    (!matches!(kind, "RuntimeDefault" | "Localhost")).then_some(kind)
}

/// Who has a profile that does not confine, and what they have.
fn loose<'a>(pod: &Pod<'a>, profile: &str) -> (Setters<'a>, BTreeSet<&'a str>) {
    let mut found = BTreeSet::new();
    let setters = Setters::of(pod, |context| {
        let kind = unconfined(context, profile);
        found.extend(kind);
        kind.is_some()
    });
    (setters, found)
}

/// AppArmor that is off or of an unknown sort, in fields or in the annotations they came from.
pub(super) fn app_armor(pod: &Pod<'_>, _: i64) -> Option<Violation> {
    let (setters, kinds) = loose(pod, "appArmorProfile");
    let fine = |value: &str| matches!(value, "" | "runtime/default") || value.starts_with("localhost/");
    let bad = pod.annotations();
    let bad = bad.filter(|(key, value)| key.starts_with(APP_ARMOR) && !fine(value));
    let mut noted: Vec<String> = bad.map(|(key, value)| format!("{key}={}", go_quote(value))).collect();
    noted.sort_unstable();
    if setters.is_empty() && noted.is_empty() {
        return None;
    }
    let annotations = plural(noted.len(), "annotation", "annotations");
    let who = setters.and((!noted.is_empty()).then_some(annotations));
    let values: Vec<&str> = kinds.into_iter().chain(noted.iter().map(String::as_str)).collect();
    let one = "forbidden AppArmor profile";
    let reason = plural(values.len(), one, "forbidden AppArmor profiles");
    let what = words::quoted(values);
    let detail = format!("{who} must not set AppArmor profile type to {what}");
    Violation::new(reason, detail)
}

/// Types of SELinux that are not for containers; users and roles of whatever name.
pub(super) fn se_linux(pod: &Pod<'_>, version: i64) -> Option<Violation> {
    let allowed = |kind: &str| TYPES.iter().any(|it| it.0 == kind && it.1 <= version);
    let (mut kinds, mut user, mut role) = (BTreeSet::new(), false, false);
    let setters = Setters::of(pod, |context| {
        let options = &context["seLinuxOptions"];
        let kind = Some(string(&options["type"])).filter(|kind| !allowed(kind));
        let has_user = !string(&options["user"]).is_empty();
        let has_role = !string(&options["role"]).is_empty();
        kinds.extend(kind);
        user |= has_user;
        role |= has_role;
        kind.is_some() || has_user || has_role
    });
    if setters.is_empty() {
        return None;
    }
    let types = plural(kinds.len(), "type", "types");
    let parts = [
        (!kinds.is_empty()).then(|| format!("{types} {}", words::quoted(kinds))),
        user.then(|| "user may not be set".to_owned()),
        role.then(|| "role may not be set".to_owned()),
    ];
    let (who, what) = (
        setters.words(),
        parts.into_iter().flatten().collect::<Vec<_>>().join("; "),
    );
    let detail = format!("{who} set forbidden securityContext.seLinuxOptions: {what}");
    Violation::new("seLinuxOptions", detail)
}

/// Seccomp that is off: in annotations before there were fields, in fields since.
pub(super) fn seccomp(pod: &Pod<'_>, version: i64) -> Option<Violation> {
    if version < 19 {
        return annotated_seccomp(pod);
    }
    let (setters, kinds) = loose(pod, "seccompProfile");
    if setters.is_empty() {
        return None;
    }
    let (who, what) = (setters.words(), words::quoted(kinds));
    let detail = format!("{who} must not set securityContext.seccompProfile.type to {what}");
    Violation::new("seccompProfile", detail)
}

fn annotated_seccomp(pod: &Pod<'_>) -> Option<Violation> {
    let of_container = |key: &str| {
        let name = key.strip_prefix(SECCOMP_OF_CONTAINER);
        name.is_some_and(|name| pod.containers().any(|it| it["name"] == name))
    };
    let fine = |value: &str| matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/");
    let bad = pod
        .annotations()
        .filter(|(key, value)| (*key == SECCOMP || of_container(key)) && !fine(value));
    let bad: BTreeSet<String> = bad.map(|(key, value)| format!("{key}={}", go_quote(value))).collect();
    if bad.is_empty() {
        return None;
    }
    let annotations = plural(bad.len(), "annotation", "annotations");
    let what = bad.into_iter().collect::<Vec<_>>().join(", ");
    Violation::new("seccompProfile", format!("forbidden {annotations} {what}"))
}

/// Seccomp that is off or not mentioned.
pub(super) fn some_seccomp(pod: &Pod<'_>, version: i64) -> Option<Violation> {
    let off = seccomp(pod, version);
    if off.is_some() {
        return off;
    }
    let who = silent(pod, "seccompProfile")?;
    let detail =
        format!("pod or {who} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"");
    Violation::new("seccompProfile", detail)
}
