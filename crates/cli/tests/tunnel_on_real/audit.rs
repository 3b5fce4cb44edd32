//! The requests of our programs, according to the API server's audit log.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::TENANT;
use crate::rights::{Account, Excuse, LOOK, Request};
use crate::stage::{AGENT, GATEWAY, OPERATOR, SYSTEM, Stage};

const OWNER_REFERENCE_REASON: &str =
    "required by the admission plugin OwnerReferencesPermissionEnforcement, which this server runs";
const CLAIM_RACE_REASON: &str = "read when another tunnel claims a hostname at the same moment";
const GC_REASON: &str = "the object of a killed gateway is deleted after ten minutes";
/// Rights of the operator that a run need not use.
const EXCUSES: [Excuse; 7] = [
    ("update httpproxies/finalizers", OWNER_REFERENCE_REASON),
    ("get connectors", LOOK),
    ("get gateways", LOOK),
    ("get httproutes", LOOK),
    ("get endpointslices", LOOK),
    ("get hostnameclaims", CLAIM_RACE_REASON),
    ("delete gatewayreplicas", GC_REASON),
];

/// One completed request of our programs.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) account: &'static str,
    pub(crate) verb: String,
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) code: u64,
    /// When it was received, as the server writes it.
    pub(crate) at: String,
}

impl Entry {
    fn parse(line: &Value) -> Option<Self> {
        let user = line["user"]["username"].as_str()?;
        let account = user.strip_prefix("system:serviceaccount:")?.rsplit(':').next()?;
        let who = [OPERATOR, GATEWAY, AGENT].into_iter().find(|who| *who == account)?;
        let object = &line["objectRef"];
        let part = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
        let resource = match object["subresource"].as_str() {
            None => part("resource"),
            Some(sub) => format!("{}/{sub}", part("resource")),
        };
        Some(Self {
            account: who,
            verb: line["verb"].as_str()?.to_owned(),
            resource,
            namespace: part("namespace"),
            name: part("name"),
            code: line["responseStatus"]["code"].as_u64()?,
            at: line["requestReceivedTimestamp"].as_str()?.to_owned(),
        })
    }

    /// Whether another writer was first. An Event that already exists is our own, sent again because the response took
    /// too long.
    pub(crate) fn is_conflict(&self) -> bool {
        self.code == 409 && self.resource != "events"
    }

    /// Whether it is a write that counts: Events and heartbeats do not.
    pub(crate) fn is_write(&self) -> bool {
        let reads = ["get", "list", "watch"];
        let aside = ["events", "leases"];
        !reads.contains(&self.verb.as_str()) && !aside.contains(&self.resource.as_str())
    }

    pub(crate) fn describe(&self) -> String {
        format!("{} {} {}", self.account, self.verb, self.resource)
    }
}

/// All requests so far, oldest first.
pub(crate) fn read_entries(stage: &Stage) -> Result<Vec<Entry>> {
    let text = std::fs::read_to_string(stage.plane.audit_log())?;
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(lines.filter_map(|line| Entry::parse(&line)).collect())
}

/// The number of requests of each kind, the most frequent first.
pub(crate) fn count_entries<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for entry in entries {
        *counts.entry(entry.describe()).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

/// None of our requests was forbidden or conflicted during the whole run, except those that the test provoked:
/// the intruder's requests, and hostnames that were claimed twice.
pub(crate) fn check_no_conflicts(stage: &Stage) -> Result<()> {
    let all = read_entries(stage)?;
    ensure!(all.len() > 100, "the audit log has {} requests", all.len());
    let forbidden = |entry: &&Entry| entry.code == 403 && entry.namespace != "elsewhere" && !is_finished(entry);
    let forbidden = count_entries(all.iter().filter(forbidden));
    ensure!(forbidden.is_empty(), "forbidden: {forbidden:?}");
    let twice = |entry: &&Entry| entry.resource == "hostnameclaims" && entry.verb == "create";
    let claims = all.iter().filter(twice).filter(|entry| entry.code == 409).count();
    let conflicts = all.iter().filter(|entry| entry.is_conflict() && !twice(entry));
    let conflicts = count_entries(conflicts);
    println!(
        "        {} requests, {conflicts:?} conflicts, {claims} claims of a taken hostname",
        all.len()
    );
    ensure!(conflicts.is_empty(), "conflicts: {conflicts:?}");
    Ok(())
}

/// In a namespace that is being deleted nothing can be created, even with all rights.
fn is_finished(entry: &Entry) -> bool {
    let makes = ["create", "patch"].contains(&entry.verb.as_str());
    makes && ["bad", "second"].contains(&entry.namespace.as_str())
}

/// The granted rights are exactly the used ones. Checked only if every act was played.
pub(crate) fn check_rights(stage: &Stage) -> Result<()> {
    let settled = |namespace: &str, who: &str, excuses: &[Excuse]| {
        let mut account = Account::of(&stage.plane, namespace, who)?;
        // The requests of the intruder, which must be forbidden.
        let meant = |request: &Request| request.namespace != "elsewhere";
        account.requests.retain(meant);
        account.settle(who, excuses)
    };
    let all = [
        settled(SYSTEM, OPERATOR, &EXCUSES),
        settled(SYSTEM, GATEWAY, &[("get gatewayreplicas", LOOK)]),
        settled(TENANT, AGENT, &[]),
    ];
    all.into_iter().collect()
}
