//! The name of a configuration: a digest of everything that requests to a tunnel meet, the same on
//! every replica that serves the same.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::hostname_claims::ServedHostname;
use crate::table::TunnelInfo;

/// How many bytes of the digest are shown: enough that two configurations of a tunnel differ.
const DIGEST_BYTES: usize = 6;

/// The revision of a tunnel that serves this.
pub(super) fn tunnel_revision(tunnel: &TunnelInfo, served: &[ServedHostname<'_>]) -> String {
    let mut digest = Sha256::new();
    let mut part = |text: &str| {
        digest.update(text.len().to_be_bytes());
        digest.update(text.as_bytes());
    };
    part(&tunnel.uid);
    part(&tunnel.generation.to_string());
    for served in served {
        part(&served.hostname);
        part(&format!("{:?}", served.protocols));
        for (ranked, protocols) in &served.routes {
            let route = &ranked.route;
            part(&format!("{protocols:?}"));
            part(&format!("{:?}", (&route.matches.wanted, &route.filters)));
            part(&format!("{:?}", (route.rule, &route.action, route.timeout)));
        }
    }
    let mut shown = String::new();
    for byte in digest.finalize().iter().take(DIGEST_BYTES) {
        // Writing to a String cannot fail.
        let _ = write!(shown, "{byte:02x}");
    }
    shown
}
