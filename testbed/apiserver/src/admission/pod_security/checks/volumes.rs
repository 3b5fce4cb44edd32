//! What a Pod may mount.

use std::collections::BTreeSet;

use aplomb_apimachinery::object;
use serde_json::Value;

use super::super::pod::{Pod, items};
use super::super::words::{self, plural};
use super::Violation;

/// Sources that reach nothing outside of what the cluster manages.
const ALLOWED: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// The other sources; a volume that has several is called by the first.
const OTHERS: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

/// Directories of the host.
pub(super) fn host_path(pod: &Pod<'_>, _: i64) -> Option<Violation> {
    let names = those(pod, |volume| has(volume, "hostPath"));
    if names.is_empty() {
        return None;
    }
    let detail = volumes(&names);
    Violation::new("hostPath volumes", detail)
}

/// Anything but the allowed sources.
pub(super) fn restricted(pod: &Pod<'_>, _: i64) -> Option<Violation> {
    let mut kinds = BTreeSet::new();
    let names = those(pod, |volume| {
        let bad = !ALLOWED.iter().any(|source| has(volume, source));
        if bad {
            let source = OTHERS.iter().find(|source| has(volume, source));
            kinds.insert(source.map_or("unknown", |it| *it));
        }
        bad
    });
    if names.is_empty() {
        return None;
    }
    let (who, verb) = (volumes(&names), plural(names.len(), "uses", "use"));
    let one = "restricted volume type";
    let what = plural(kinds.len(), one, "restricted volume types");
    let kinds = words::quoted(kinds);
    Violation::new("restricted volume types", format!("{who} {verb} {what} {kinds}"))
}

fn those<'a>(pod: &Pod<'a>, mut are_so: impl FnMut(&Value) -> bool) -> Vec<&'a str> {
    let found = items(&pod.spec()["volumes"]).iter();
    let found = found.filter(|volume| are_so(volume));
    found.map(|volume| object::text(volume, "name")).collect()
}

fn has(volume: &Value, source: &str) -> bool {
    volume.get(source).is_some_and(|it| !it.is_null())
}

fn volumes(names: &[&str]) -> String {
    let what = plural(names.len(), "volume", "volumes");
    format!("{what} {}", words::quoted(names))
}
