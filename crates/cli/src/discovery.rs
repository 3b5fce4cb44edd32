//! Finds the admin addresses of operators: given by flags, on their Leases, or of their pods through the API
//! server. Operators that cannot be reached are reported.

mod admin;

use std::collections::BTreeSet;

use anyhow::Result;
use aplomb::leadership::ADMIN_ANNOTATION;
use aplomb_api::operators::OPERATORS;
use kube::Client;
use serde_json::Value;

pub(crate) use self::admin::AdminClient;
use crate::cluster::{ClusterClient, list_items, str_at};
use crate::error_text;

const OPERATOR_NAMESPACE: &str = "aplomb-system";
const PODS_PATH: &str = "/api/v1/pods?labelSelector=app.kubernetes.io%2Fpart-of%3Daplomb";

/// The operators that can be reached, and what is known of the others.
#[derive(Default)]
pub(crate) struct FoundOperators {
    pub(crate) admins: Vec<AdminClient>,
    /// Their Leases; `None` if they cannot be read.
    pub(crate) leases: Option<Vec<Value>>,
    /// Operators that cannot be reached, and why.
    pub(crate) gaps: Vec<String>,
}

pub(crate) async fn find_operators(cluster: &ClusterClient, given: &[String]) -> Result<FoundOperators> {
    let mut found = FoundOperators::default();
    match list_leases(&cluster.client).await {
        Ok(leases) => found.leases = Some(leases),
        Err(error) => {
            let why = error_text::server_error_line(&error);
            found.gaps.push(format!("the operators' Leases cannot be read: {why}"));
        }
    }
    if !given.is_empty() {
        found.admins = given
            .iter()
            .map(|url| AdminClient::for_url(url))
            .collect::<Result<_>>()?;
        return Ok(found);
    }
    let leases = found.leases.clone().unwrap_or_default();
    let mut asked = find_by_lease(&leases, &mut found.admins).await;
    if leases.is_empty() || leases.iter().any(|lease| !asked.contains(holder(lease))) {
        find_by_pod(&cluster.client, &mut asked, &mut found).await;
    }
    for lease in &leases {
        let (name, holder) = (str_at(lease, "/metadata/name"), holder(lease));
        if !holder.is_empty() && !asked.contains(holder) {
            let gap = format!("cannot reach {name}, held by {holder}; set its admin address with --admin URL");
            found.gaps.push(gap);
        }
    }
    if found.admins.is_empty() && found.gaps.is_empty() {
        let gap = "no operator found; start one with `aplomb run`, or set its address with --admin URL";
        found.gaps.push(gap.to_owned());
    }
    Ok(found)
}

/// Operators with an address on their Lease, if it is the holder that responds there.
async fn find_by_lease(leases: &[Value], admins: &mut Vec<AdminClient>) -> BTreeSet<String> {
    let address = |lease: &Value| {
        let notes = lease.pointer("/metadata/annotations")?;
        notes[ADMIN_ANNOTATION].as_str().map(str::to_owned)
    };
    // Operators of one process share an address.
    let addresses: BTreeSet<String> = leases.iter().filter_map(address).collect();
    let there = addresses.iter().filter_map(|it| AdminClient::for_url(it).ok());
    let holders: BTreeSet<&str> = leases.iter().map(holder).collect();
    let mut asked = BTreeSet::new();
    for (admin, identities) in with_identities(there.collect()).await {
        if identities.iter().any(|it| holders.contains(it.as_str())) {
            asked.extend(identities);
            admins.push(admin);
        }
    }
    asked
}

/// Operators in pods that are reachable through the API server.
async fn find_by_pod(client: &Client, asked: &mut BTreeSet<String>, found: &mut FoundOperators) {
    let Ok(pods) = list_items(client, PODS_PATH).await else {
        return;
    };
    let there = pods.iter().filter_map(|pod| AdminClient::for_pod(client, pod));
    for (admin, identities) in with_identities(there.collect()).await {
        if !identities.is_empty() && !identities.is_subset(asked) {
            asked.extend(identities);
            found.admins.push(admin);
        }
    }
}

/// Each with its identities. All are queried at the same time, so one that is down delays no other.
async fn with_identities(admins: Vec<AdminClient>) -> Vec<(AdminClient, BTreeSet<String>)> {
    let each = admins.into_iter().map(|admin| async move {
        let identities = admin.identities().await;
        (admin, identities)
    });
    futures::future::join_all(each).await
}

/// The Leases of operators: of all namespaces, or of the default one if only that is allowed.
async fn list_leases(client: &Client) -> kube::Result<Vec<Value>> {
    const LEASES: &str = "/apis/coordination.k8s.io/v1";
    let all = match list_items(client, &format!("{LEASES}/leases")).await {
        Err(kube::Error::Api(status)) if status.is_forbidden() => {
            list_items(client, &format!("{LEASES}/namespaces/{OPERATOR_NAMESPACE}/leases")).await?
        }
        other => other?,
    };
    let ours = |lease: &Value| {
        let noted = lease
            .pointer("/metadata/annotations")
            .is_some_and(|all| all[ADMIN_ANNOTATION].is_string());
        let name = str_at(lease, "/metadata/name");
        noted || OPERATORS.iter().any(|operator| operator.lease == name)
    };
    Ok(all.into_iter().filter(ours).collect())
}

fn holder(lease: &Value) -> &str {
    str_at(lease, "/spec/holderIdentity")
}
