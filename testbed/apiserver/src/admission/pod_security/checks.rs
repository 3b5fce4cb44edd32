//! What the levels forbid, as of each version, and in which order that is told.
//!
//! Pure: a Pod goes in, what is wrong with it comes out.

mod containers;
mod host;
mod profiles;
#[cfg(test)]
mod tests;
mod volumes;

use super::pod::{Pod, has_own_users, is_windows};
use super::standard::{Level, Standard, Version};

/// The last version that changed anything: later ones forbid the same.
const NEWEST: i64 = 35;

/// What a check objects to: in short, and with the names of those it is about.
#[derive(Debug, PartialEq, Eq)]
struct Violation {
    reason: &'static str,
    detail: String,
}

impl Violation {
    fn new(reason: &'static str, detail: String) -> Option<Self> {
        Some(Self { reason, detail })
    }
}

type Spared = fn(&Pod<'_>) -> bool;

/// One thing a level forbids.
struct Check {
    id: &'static str,
    level: Level,
    /// The minor version it came with.
    since: i64,
    /// Whom it lets be, and since when.
    spares: Option<(i64, Spared)>,
    /// The weaker check that need not be made where this one is.
    replaces: Option<&'static str>,
    /// Told the version, for what is allowed grows with it.
    run: fn(&Pod<'_>, i64) -> Option<Violation>,
}

const BASELINE: Check = Check {
    id: "",
    level: Level::Baseline,
    since: 0,
    spares: None,
    replaces: None,
    run: |_, _| None,
};

const RESTRICTED: Check = Check {
    level: Level::Restricted,
    ..BASELINE
};

/// All of them in the order in which violations are told.
const CHECKS: [Check; 19] = [
    Check {
        id: "appArmorProfile",
        run: profiles::app_armor,
        ..BASELINE
    },
    Check {
        id: "capabilities_baseline",
        run: containers::capabilities,
        ..BASELINE
    },
    Check {
        id: "hostNamespaces",
        run: host::namespaces,
        ..BASELINE
    },
    Check {
        id: "hostPathVolumes",
        run: volumes::host_path,
        ..BASELINE
    },
    Check {
        id: "hostPorts",
        run: host::ports,
        ..BASELINE
    },
    Check {
        id: "hostProbesAndHostLifecycle",
        since: 34,
        run: host::probes,
        ..BASELINE
    },
    Check {
        id: "privileged",
        run: containers::privileged,
        ..BASELINE
    },
    Check {
        id: "procMount",
        spares: Some((35, has_own_users)),
        run: containers::proc_mount,
        ..BASELINE
    },
    Check {
        id: "seLinuxOptions",
        run: profiles::se_linux,
        ..BASELINE
    },
    Check {
        id: "seccompProfile_baseline",
        run: profiles::seccomp,
        ..BASELINE
    },
    Check {
        id: "sysctls",
        run: host::sysctls,
        ..BASELINE
    },
    Check {
        id: "windowsHostProcess",
        run: host::processes,
        ..BASELINE
    },
    Check {
        id: "allowPrivilegeEscalation",
        since: 8,
        spares: Some((25, is_windows)),
        run: containers::escalation,
        ..RESTRICTED
    },
    Check {
        id: "capabilities_restricted",
        since: 22,
        spares: Some((25, is_windows)),
        replaces: Some("capabilities_baseline"),
        run: containers::all_capabilities,
        ..RESTRICTED
    },
    Check {
        id: "procMount_restricted",
        since: 35,
        replaces: Some("procMount"),
        run: containers::proc_mount,
        ..RESTRICTED
    },
    Check {
        id: "restrictedVolumes",
        replaces: Some("hostPathVolumes"),
        run: volumes::restricted,
        ..RESTRICTED
    },
    Check {
        id: "runAsNonRoot",
        spares: Some((35, has_own_users)),
        run: containers::not_root,
        ..RESTRICTED
    },
    Check {
        id: "runAsUser",
        since: 23,
        spares: Some((35, has_own_users)),
        run: containers::not_zero,
        ..RESTRICTED
    },
    Check {
        id: "seccompProfile_restricted",
        since: 19,
        spares: Some((25, is_windows)),
        replaces: Some("seccompProfile_baseline"),
        run: profiles::some_seccomp,
        ..RESTRICTED
    },
];

/// What is wrong with a Pod by one standard.
#[derive(Debug)]
pub(super) struct Verdict(Vec<Violation>);

impl Verdict {
    /// Whether nothing is.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In short.
    pub(super) fn reasons(&self) -> String {
        let reasons = self.0.iter().map(|it| it.reason);
        reasons.collect::<Vec<_>>().join(", ")
    }

    /// With the names of those it is about.
    pub(super) fn detail(&self) -> String {
        let each = self.0.iter();
        each.map(|it| format!("{} ({})", it.reason, it.detail))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// Holds a Pod to a standard.
pub(super) fn judge(standard: Standard, pod: &Pod<'_>) -> Verdict {
    let minor = match standard.version {
        Version::Minor(minor) => minor.min(NEWEST),
        Version::Latest => NEWEST,
    };
    let made = || {
        let made = CHECKS.iter();
        made.filter(move |it| it.level <= standard.level && it.since <= minor)
    };
    let replaced = |check: &Check| made().any(|other| other.replaces == Some(check.id));
    let spared = |check: &Check| match check.spares {
        Some((since, whom)) => since <= minor && whom(pod),
        None => false,
    };
    let found = made().filter(|it| !replaced(it) && !spared(it));
    Verdict(found.filter_map(|it| (it.run)(pod, minor)).collect())
}
