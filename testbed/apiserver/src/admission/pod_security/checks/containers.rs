//! What the processes of a container may do and who they may be: capabilities, privileges, an open
//! `/proc`, root.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::pod::{Pod, items, string};
use super::super::words::{self, Setters, silent};
use super::Violation;

/// The capabilities a container has when it says nothing.
const DEFAULT: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// Capabilities beyond the usual ones.
pub(super) fn capabilities(pod: &Pod<'_>, _: i64) -> Option<Violation> {
    let detail = added(pod, &DEFAULT)?;
    Violation::new("non-default capabilities", detail)
}

/// Capabilities that were not given up, and those that were taken back.
pub(super) fn all_capabilities(pod: &Pod<'_>, _: i64) -> Option<Violation> {
    let keeping = pod.containers_that(|container| {
        let dropped = items(&container["securityContext"]["capabilities"]["drop"]);
        !dropped.iter().any(|it| it == "ALL")
    });
    let keeping = (!keeping.is_empty()).then(|| {
        let who = words::containers(&keeping);
        format!("{who} must set securityContext.capabilities.drop=[\"ALL\"]")
    });
    let parts = [keeping, added(pod, &["NET_BIND_SERVICE"])];
    let details: Vec<String> = parts.into_iter().flatten().collect();
    if details.is_empty() {
        return None;
    }
    Violation::new("unrestricted capabilities", details.join("; "))
}

/// Which containers add what they may not.
fn added(pod: &Pod<'_>, allowed: &[&str]) -> Option<String> {
    let mut found = BTreeSet::new();
    let adding = pod.containers_that(|container| {
        let added = items(&container["securityContext"]["capabilities"]["add"]).iter();
        let bad: Vec<&str> = added.map(string).filter(|it| !allowed.contains(it)).collect();
        found.extend(bad.iter().copied());
        !bad.is_empty()
    });
    if adding.is_empty() {
        return None;
    }
    let (who, what) = (words::containers(&adding), words::quoted(found));
    Some(format!(
        "{who} must not include {what} in securityContext.capabilities.add"
    ))
}

/// Containers that may do everything.
pub(super) fn privileged(pod: &Pod<'_>, _: i64) -> Option<Violation> {
    let who = who(pod, |context| context["privileged"] == true)?;
    let detail = format!("{who} must not set securityContext.privileged=true");
    Violation::new("privileged", detail)
}

/// Containers that may become more than they are.
pub(super) fn escalation(pod: &Pod<'_>, _: i64) -> Option<Violation> {
    let who = who(pod, |context| context["allowPrivilegeEscalation"] != false)?;
    let detail = format!("{who} must set securityContext.allowPrivilegeEscalation=false");
    Violation::new("allowPrivilegeEscalation != false", detail)
}

/// A `/proc` of which nothing is hidden.
pub(super) fn proc_mount(pod: &Pod<'_>, _: i64) -> Option<Violation> {
    let mut found = BTreeSet::new();
    let who = who(pod, |context| {
        let other = context["procMount"].as_str().filter(|it| *it != "Default");
        found.extend(other);
        other.is_some()
    })?;
    let what = words::quoted(found);
    let detail = format!("{who} must not set securityContext.procMount to {what}");
    Violation::new("procMount", detail)
}

/// Processes that may be root, because it was said or because nothing was.
pub(super) fn not_root(pod: &Pod<'_>, _: i64) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    let setters = Setters::of(pod, |context| context["runAsNonRoot"] == false);
    if !setters.is_empty() {
        let who = setters.words();
        let detail = format!("{who} must not set securityContext.runAsNonRoot=false");
        return Violation::new(REASON, detail);
    }
    let who = silent(pod, "runAsNonRoot")?;
    let detail = format!("pod or {who} must set securityContext.runAsNonRoot=true");
    Violation::new(REASON, detail)
}

/// Processes that are root by number.
pub(super) fn not_zero(pod: &Pod<'_>, _: i64) -> Option<Violation> {
    let setters = Setters::of(pod, |context| context["runAsUser"] == 0);
    if setters.is_empty() {
        return None;
    }
    let detail = format!("{} must not set runAsUser=0", setters.words());
    Violation::new("runAsUser=0", detail)
}

/// The containers with such a security context, if there are some.
fn who<'a>(pod: &Pod<'a>, mut such: impl FnMut(&'a Value) -> bool) -> Option<String> {
    let found = pod.containers_that(|container| such(&container["securityContext"]));
    (!found.is_empty()).then(|| words::containers(&found))
}
