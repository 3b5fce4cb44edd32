//! `aplomb version`: the version of this program and of the kinds it supports.

use anyhow::Result;
use aplomb_api::gateway_api::{BUNDLE_VERSION, DEFINITIONS};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use serde_json::json;

use crate::args::{VersionArgs, VersionOutput};
use crate::output::{OutputStream, json_text};

pub(crate) fn run(args: &VersionArgs, out: &OutputStream) -> Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let platform = format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH);
    match args.output {
        VersionOutput::Text => out.print(&format!("aplomb {version} ({platform})\n")),
        VersionOutput::Json => {
            let group = aplomb_api::definitions().remove(0).spec;
            let served = group.versions.first().map_or("", |it| it.name.as_str());
            let whole = json!({
                "version": version,
                "commit": option_env!("APLOMB_COMMIT"),
                "platform": platform,
                "apiVersion": format!("{}/{served}", group.group),
                "gatewayAPIVersion": gateway_api_release()?,
            });
            out.print(&json_text(&whole))
        }
    }
}

/// The release of the Gateway API that `aplomb crds` installs.
fn gateway_api_release() -> Result<String> {
    let (_, text) = DEFINITIONS[0];
    let definition: CustomResourceDefinition = serde_saphyr::from_str(text)?;
    let version = definition.annotations().get(BUNDLE_VERSION);
    Ok(version.cloned().unwrap_or_default())
}
