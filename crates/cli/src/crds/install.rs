//! `aplomb crds --apply`: installs CRDs and waits until they are served.
//!
//! Ours are applied. The Gateway API's CRDs belong to the whole cluster: they are installed where they are
//! missing or older, and never changed to an older version or another channel.

use std::cmp::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use aplomb_api::gateway_api::{BUNDLE_VERSION, CHANNEL, DEFINITIONS};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, ResourceExt};

use crate::args::CrdKinds;

const MANAGER: &str = "aplomb-crds";
/// Time limit for the server to serve a kind.
const ESTABLISH_TIMEOUT: Duration = Duration::from_secs(60);

type Crds = Api<CustomResourceDefinition>;

/// Installs all of them, printing one line each, even if one is rejected.
pub(super) async fn run(client: &Client, chosen: &[CrdKinds]) -> Result<()> {
    let crds: Crds = Api::all(client.clone());
    let mut failed = Vec::new();
    let own = chosen.iter().flat_map(|kinds| super::definitions_for(*kinds));
    for definition in own {
        let done = apply(&crds, &definition).await.map(|()| "applied".to_owned());
        print_result(&definition.name_any(), done, &mut failed)?;
    }
    if chosen.contains(&CrdKinds::GatewayApi) {
        for (plural, text) in DEFINITIONS {
            let definition: CustomResourceDefinition = serde_saphyr::from_str(text).context(plural)?;
            let done = install_gateway_api(&crds, &definition).await;
            print_result(&definition.name_any(), done, &mut failed)?;
        }
    }
    if !failed.is_empty() {
        bail!("not installed: {}; see the lines above", failed.join(", "));
    }
    Ok(())
}

/// Installs the missing CRDs of the Gateway API, for a process that requires them.
/// Existing ones are left unchanged, whatever their version.
pub(crate) async fn ensure_gateway_api(client: &Client) -> Result<()> {
    let crds: Crds = Api::all(client.clone());
    for (plural, text) in DEFINITIONS {
        let definition: CustomResourceDefinition = serde_saphyr::from_str(text).context(plural)?;
        let name = definition.name_any();
        match crds.get_opt(&name).await {
            Ok(None) => create(&crds, &definition)
                .await
                .with_context(|| format!("{name} not installed; run `aplomb crds --apply` as an administrator"))?,
            Ok(Some(_)) => {}
            // A user without the right to read CRDs is expected to have been set up by an administrator.
            Err(kube::Error::Api(status)) if status.is_forbidden() => {}
            Err(error) => return Err(error).context(name),
        }
    }
    Ok(())
}

async fn create(crds: &Crds, definition: &CustomResourceDefinition) -> Result<()> {
    let params = PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    };
    match crds.create(&params, definition).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        made => drop(made?),
    }
    wait_served(crds, &definition.name_any()).await
}

/// Prints the result for one CRD. Missing rights end the command: they would fail for all.
fn print_result(name: &str, done: Result<String>, failed: &mut Vec<String>) -> Result<()> {
    match done {
        Ok(what) => println!("{name} {what}"),
        Err(error) if is_forbidden(&error) => return Err(error),
        Err(error) => {
            eprintln!("{name} rejected: {}", crate::error_text::error_line(&error));
            failed.push(name.to_owned());
        }
    }
    Ok(())
}

fn is_forbidden(error: &anyhow::Error) -> bool {
    let refusal = error.chain().find_map(|it| it.downcast_ref());
    matches!(refusal, Some(kube::Error::Api(status)) if status.is_forbidden())
}

async fn apply(crds: &Crds, definition: &CustomResourceDefinition) -> Result<()> {
    let name = definition.name_any();
    let params = PatchParams::apply(MANAGER).force();
    crds.patch(&name, &params, &Patch::Apply(definition)).await?;
    wait_served(crds, &name).await
}

async fn wait_served(crds: &Crds, name: &str) -> Result<()> {
    let established = conditions::is_crd_established();
    let established = await_condition(crds.clone(), name, established);
    let established = tokio::time::timeout(ESTABLISH_TIMEOUT, established).await;
    established.with_context(|| format!("not served within {} s", ESTABLISH_TIMEOUT.as_secs()))??;
    Ok(())
}

async fn install_gateway_api(crds: &Crds, definition: &CustomResourceDefinition) -> Result<String> {
    let there = crds.get_opt(&definition.name_any()).await?;
    let wanted = annotation(definition, BUNDLE_VERSION);
    match decide_install(there.as_ref(), definition) {
        InstallDecision::Install => {
            apply(crds, definition).await?;
            Ok(format!("installed, version {wanted}"))
        }
        InstallDecision::Upgrade(from) => {
            apply(crds, definition).await?;
            Ok(format!("upgraded from version {from} to {wanted}"))
        }
        InstallDecision::Keep(why) => Ok(format!("unchanged: {why}")),
    }
}

/// What to do with a CRD of the Gateway API.
#[derive(Debug, PartialEq, Eq)]
enum InstallDecision {
    Install,
    Upgrade(String),
    Keep(String),
}

fn decide_install(there: Option<&CustomResourceDefinition>, ours: &CustomResourceDefinition) -> InstallDecision {
    let Some(there) = there else {
        return InstallDecision::Install;
    };
    let (theirs, wanted) = (annotation(there, BUNDLE_VERSION), annotation(ours, BUNDLE_VERSION));
    let (channel, own) = (annotation(there, CHANNEL), annotation(ours, CHANNEL));
    if channel != own {
        return InstallDecision::Keep(format!("its channel is {channel:?}, ours is {own:?}"));
    }
    let (Some(found), Some(known)) = (parse_release(theirs), parse_release(wanted)) else {
        return InstallDecision::Keep(format!("its version {theirs:?} cannot be compared"));
    };
    match found.cmp(&known) {
        Ordering::Less => InstallDecision::Upgrade(theirs.to_owned()),
        Ordering::Equal => InstallDecision::Keep(format!("version {theirs} is installed")),
        Ordering::Greater => InstallDecision::Keep(format!("version {theirs} is newer than {wanted}")),
    }
}

fn annotation<'a>(definition: &'a CustomResourceDefinition, key: &str) -> &'a str {
    definition.annotations().get(key).map_or("", String::as_str)
}

/// `v1.6.3` as numbers; `None` for anything else, such as `v1.7.0-rc1`.
fn parse_release(version: &str) -> Option<[u32; 3]> {
    let numbers: Vec<u32> = version
        .strip_prefix('v')?
        .split('.')
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    numbers.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published_route_crd() -> CustomResourceDefinition {
        serde_saphyr::from_str(DEFINITIONS[0].1).expect("a definition")
    }

    fn crd_with_version(version: &str, channel: &str) -> CustomResourceDefinition {
        let mut definition = published_route_crd();
        let notes = definition.annotations_mut();
        notes.insert(BUNDLE_VERSION.to_owned(), version.to_owned());
        notes.insert(CHANNEL.to_owned(), channel.to_owned());
        definition
    }

    #[test]
    fn the_gateway_api_is_never_downgraded() {
        let ours = crd_with_version("v1.6.3", "standard");
        let said = |version: &str, channel: &str| match decide_install(Some(&crd_with_version(version, channel)), &ours)
        {
            InstallDecision::Keep(why) => why,
            other => format!("{other:?}"),
        };
        assert_eq!(decide_install(None, &ours), InstallDecision::Install);
        assert_eq!(said("v1.5.9", "standard"), "Raise(\"v1.5.9\")");
        assert_eq!(said("v1.6.3", "standard"), "version v1.6.3 is installed");
        assert!(said("v1.10.0", "standard").contains("newer"));
        assert!(said("v1.7.0-rc1", "standard").contains("compared"));
        assert!(said("v1.5.0", "experimental").contains("channel"));
        let bare = CustomResourceDefinition::default();
        assert!(matches!(decide_install(Some(&bare), &ours), InstallDecision::Keep(_)));
    }
}
