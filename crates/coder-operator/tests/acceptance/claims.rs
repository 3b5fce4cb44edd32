//! Checks of the keys on the servers against the statuses.

use std::collections::BTreeSet;
use std::time::Duration;

use aplomb_api::coder::KeyRecord;
use tokio::time::{Instant, sleep};

use crate::lab::Lab;

/// A key: server, organization, name.
pub type Held = (String, String, String);

/// Every key that a server has.
pub fn keys_at_server(lab: &Lab) -> BTreeSet<Held> {
    let of = |site: &crate::site::Site| {
        let url = site.url.to_owned();
        let keys = site.keys().into_iter();
        keys.map(move |(organization, name)| (url.clone(), organization, name))
            .collect::<Vec<_>>()
    };
    [&lab.coderd, &lab.other].into_iter().flat_map(of).collect()
}

/// Every key in a status: in use, pending, or retiring.
pub fn claimed_keys(lab: &Lab) -> BTreeSet<Held> {
    let objects = lab.cluster.server().list("aplomb.dev", "coderprovisioners");
    let names = objects.iter().filter_map(|it| it.pointer("/metadata/name")?.as_str());
    let records = names.flat_map(|name| {
        let status = lab.status(name);
        let retiring = status.retiring.into_iter().map(|it| it.key);
        let others = status.key.into_iter().chain(status.pending);
        others.chain(retiring).collect::<Vec<_>>()
    });
    records.map(held_key).collect()
}

fn held_key(record: KeyRecord) -> Held {
    let url = record.binding.server_url;
    (url, record.organization_id, record.name)
}

/// What differs from the settled state of a CoderProvisioner; `None` if nothing does.
pub fn unsettled(lab: &Lab, name: &str) -> Option<String> {
    let status = lab.status(name);
    let (held, claimed) = (keys_at_server(lab), claimed_keys(lab));
    let (Some(key), None, true) = (&status.key, &status.pending, status.retiring.is_empty()) else {
        let (pending, retiring) = (&status.pending, &status.retiring);
        let key = &status.key;
        return Some(format!("key {key:?}, pending {pending:?}, retiring {retiring:?}"));
    };
    if held != claimed {
        return Some(format!("the servers have {held:?}, the statuses have {claimed:?}"));
    }
    let site = lab.site(&key.binding.server_url);
    let opens = lab.plaintext(name).and_then(|it| site.key_for_plaintext(&it));
    if opens.as_ref() != Some(&key.name) {
        return Some(format!("the Secret opens {opens:?}, and not {}", key.name));
    }
    let connected = site.connected(&key.name);
    let wanted = lab.replicas(name);
    if connected != wanted {
        return Some(format!(
            "{connected} of {wanted} daemons are connected with {}",
            key.name
        ));
    }
    let ready = lab.condition(name, "Ready");
    (ready.status != "True").then(|| format!("Ready is {ready:?}"))
}

/// What is left of a deleted CoderProvisioner; `None` if nothing is.
pub fn leftover(lab: &Lab, name: &str) -> Option<String> {
    if lab.exists(name) {
        return Some(format!("the object exists: {:?}", lab.status(name)));
    }
    let held = keys_at_server(lab);
    if !held.is_empty() {
        return Some(format!("the servers have {held:?}"));
    }
    let child = |(group, plural): (&str, &str)| {
        let all = lab.cluster.server().list(group, plural);
        let ours = all.iter().find(|it| {
            let labels = it.pointer("/metadata/labels/app.kubernetes.io~1managed-by");
            labels.is_some()
        });
        ours.map(|it| format!("{plural} {:?}", it.pointer("/metadata/name")))
    };
    [("", "secrets"), ("apps", "deployments"), ("", "serviceaccounts")]
        .into_iter()
        .find_map(child)
}

/// What differs from the settled state of a CoderWorkspaceProxy; `None` if nothing does.
pub fn proxy_unsettled(lab: &Lab, name: &str) -> Option<String> {
    let status = lab.proxy_status(name);
    let (pending, retiring) = (&status.pending, &status.retiring);
    if pending.is_some() || !retiring.is_empty() {
        return Some(format!("pending {pending:?}, retiring {retiring:?}"));
    }
    let held = lab.coderd.proxies();
    let claimed: BTreeSet<String> = status.proxy_name.into_iter().collect();
    if held != claimed {
        return Some(format!("the server has {held:?}, the status has {claimed:?}"));
    }
    let token = lab.secret(&format!("{name}-proxy-token"), "token");
    let opens = token.and_then(|it| lab.coderd.proxy_for_token(&it));
    if opens.as_deref() != Some(name) {
        return Some(format!("the Secret's token is that of {opens:?}"));
    }
    let ready = lab.proxy_condition(name, "Ready");
    (ready.status != "True").then(|| format!("Ready is {ready:?}"))
}

/// What is left of a deleted CoderWorkspaceProxy; `None` if nothing is.
pub fn proxy_leftover(lab: &Lab, name: &str) -> Option<String> {
    let stored = lab.stored_object("aplomb.dev", "coderworkspaceproxies", name);
    if stored.is_some() {
        return Some(format!("the object exists: {:?}", lab.proxy_status(name)));
    }
    let held = lab.coderd.proxies();
    (!held.is_empty()).then(|| format!("the server has {held:?}"))
}

/// Waits until `look` returns `None`; otherwise returns its last result after `limit`.
pub async fn wait_until_settled(limit: Duration, mut look: impl FnMut() -> Option<String>) -> Result<Duration, String> {
    let began = Instant::now();
    loop {
        let Some(wrong) = look() else {
            return Ok(began.elapsed());
        };
        if began.elapsed() >= limit {
            return Err(format!("not within {limit:?}: {wrong}"));
        }
        sleep(Duration::from_millis(500)).await;
    }
}

/// Checks at every change whether each key is in a status: it is written there before it is
/// created, and deleted before it is dropped. Returns when one is not.
pub async fn find_unclaimed(lab: Lab) -> String {
    loop {
        lab.wake.notified().await;
        let stray: Vec<_> = keys_at_server(&lab).difference(&claimed_keys(&lab)).cloned().collect();
        if !stray.is_empty() {
            return format!("no status has {stray:?}");
        }
    }
}
