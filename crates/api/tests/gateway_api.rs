//! The vendored Gateway API: its version, and that the output of `make gateway-api` was not edited.

use aplomb_api::gateway_api::{BUNDLE_VERSION, CHANNEL, DEFINITIONS};
use aplomb_controlplane::Versions;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use sha2::{Digest, Sha256};

fn sha256(text: &str) -> String {
    aplomb_api::hex(&Sha256::digest(text.as_bytes()))
}

#[test]
fn the_definitions_are_those_of_the_pinned_release() {
    let pinned = Versions::pinned().expect("versions.yaml").gateway_api;
    for (plural, text) in DEFINITIONS {
        let definition: CustomResourceDefinition = serde_saphyr::from_str(text).expect("a definition");
        assert_eq!(definition.spec.names.plural, plural);
        let notes = definition.annotations();
        assert_eq!(notes.get(BUNDLE_VERSION), Some(&pinned), "{plural}");
        let channel = notes.get(CHANNEL).map(String::as_str);
        assert_eq!(channel, Some("standard"), "{plural}");
    }
}

/// The head of a generated file records the digests of its source and of the text below the head.
#[test]
fn the_types_are_as_they_were_generated() {
    for (plural, source) in DEFINITIONS {
        let path = format!("{}/src/gateway_api/{plural}.rs", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).expect("a generated file");
        let said = |prefix: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(prefix));
            line.unwrap_or_else(|| panic!("{plural} lacks {prefix:?}"))
        };
        let (_, body) = text.split_once("\n\n").expect("a head");
        let fix = format!("{plural}: run make gateway-api");
        assert_eq!(said("//! Source: sha256 "), sha256(source), "{fix}");
        let generated = said("//! Generated: sha256 ");
        assert_eq!(generated, sha256(&format!("\n{body}")), "{fix}");
    }
}
