//! Names that are part of the interface: conditions, reasons, labels, annotations, headers, hostnames.

use sha2::{Digest, Sha256};

/// The default GatewayClass and ConnectorClass.
pub const CLASS: &str = "aplomb";
/// The controller name of our classes.
pub const CONTROLLER: &str = "aplomb.dev/tunnel";

/// The length of the first label of a platform hostname, without its leading letter.
const CANONICAL_LABEL_LENGTH: usize = 16;
const BASE32_ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// The platform's hostname of the tunnel with this UID. It is known before any object is written.
#[must_use]
pub fn canonical_hostname(uid: &str, domain: &str) -> String {
    format!("{}.{domain}", canonical_label(uid))
}

/// The first label of every platform hostname of the tunnel with this UID.
#[must_use]
pub fn canonical_label(uid: &str) -> String {
    let digest = Sha256::digest(uid.as_bytes());
    let label: String = digest
        .iter()
        .take(CANONICAL_LABEL_LENGTH)
        .map(|byte| char::from(BASE32_ALPHABET[usize::from(byte % 32)]))
        .collect();
    format!("t{label}")
}

/// The label and domain of a hostname that has the form of a platform hostname under any domain.
#[must_use]
pub fn split_canonical(hostname: &str) -> Option<(&str, &str)> {
    let (_, domain) = hostname.split_once('.')?;
    is_canonical(hostname, domain).then(|| (&hostname[..=CANONICAL_LABEL_LENGTH], domain))
}

/// Whether a hostname has the form of a platform hostname under `domain`. Such hostnames cannot be claimed.
#[must_use]
pub fn is_canonical(hostname: &str, domain: &str) -> bool {
    let Some(label) = hostname.strip_suffix(domain).and_then(|rest| rest.strip_suffix('.')) else {
        return false;
    };
    label.strip_prefix('t').is_some_and(|rest| {
        rest.len() == CANONICAL_LABEL_LENGTH && rest.bytes().all(|byte| BASE32_ALPHABET.contains(&byte))
    })
}

/// Condition types.
#[allow(missing_docs, reason = "docs/tunnel.md says what each means")]
pub mod conditions {
    pub const ACCEPTED: &str = "Accepted";
    pub const PROGRAMMED: &str = "Programmed";
    pub const CONNECTOR_METADATA_PROGRAMMED: &str = "ConnectorMetadataProgrammed";
    pub const HOSTNAMES_VERIFIED: &str = "HostnamesVerified";
    pub const HOSTNAMES_IN_USE: &str = "HostnamesInUse";
    pub const CERTIFICATES_READY: &str = "CertificatesReady";
    pub const CONNECTOR_ONLINE: &str = "ConnectorOnline";
    pub const ORIGIN_REACHABLE: &str = "OriginReachable";
    pub const READY: &str = "Ready";
    /// Only for a Connector.
    pub const ONLINE: &str = "Online";
}

/// Reasons of conditions.
#[allow(missing_docs, reason = "docs/tunnel.md says what each means")]
pub mod reasons {
    pub const ACCEPTED: &str = "Accepted";
    pub const INVALID: &str = "Invalid";
    pub const PENDING: &str = "Pending";
    pub const STALE: &str = "Stale";
    pub const PROGRAMMED: &str = "Programmed";
    pub const NO_GATEWAY: &str = "NoGateway";
    pub const QUARANTINED: &str = "Quarantined";
    pub const REPORT_INCOMPLETE: &str = "ReportIncomplete";
    pub const CHILD_CONFLICT: &str = "ChildNotOurs";
    pub const METADATA_APPLIED: &str = "ConnectorMetadataApplied";
    pub const RELAY_NOT_USED: &str = "RelayNotUsed";
    pub const RELAY_UNKNOWN: &str = "RelayUnknown";
    pub const HOSTNAMES_VERIFIED: &str = "HostnamesVerified";
    pub const HOSTNAME_IN_USE: &str = "HostnameInUse";
    pub const HOSTNAME_RESERVED: &str = "HostnameReserved";
    pub const CERTIFICATES_SERVED: &str = "CertificatesServed";
    pub const CERTIFICATE_MISSING: &str = "CertificateMissing";
    pub const CERTIFICATE_INVALID: &str = "CertificateInvalid";
    pub const NO_TLS_LISTENER: &str = "NoTLSListener";
    pub const CONNECTOR_NOT_FOUND: &str = "ConnectorNotFound";
    pub const CONNECTOR_CLASS_NOT_FOUND: &str = "ConnectorClassNotFound";
    pub const CONNECTOR_OFFLINE: &str = "ConnectorOffline";
    pub const CONNECTOR_NOT_REGISTERED: &str = "ConnectorNotRegistered";
    pub const PROVEN: &str = "Proven";
    pub const PROOF_FAILED: &str = "ProofFailed";
    pub const PROOF_REFUSED: &str = "ProofRefused";
    pub const GATEWAY_UNREACHABLE: &str = "GatewayUnreachable";
    pub const ORIGIN_REACHABLE: &str = "OriginReachable";
    pub const ORIGIN_UNREACHABLE: &str = "OriginUnreachable";
    pub const ORIGIN_NOT_EXPOSED: &str = "OriginNotExposed";
    /// Only for a Connector.
    pub const RENEWED: &str = "LeaseRenewed";
    pub const SESSION_ALIVE: &str = "SessionAlive";
    pub const SESSION_LOST: &str = "SessionLost";
    pub const RELEASED: &str = "Released";
    pub const EXPIRED: &str = "LeaseExpired";
    pub const NEVER_SEEN: &str = "NeverSeen";
    pub const INVALID_RELAY: &str = "InvalidRelay";
}

/// Labels.
pub mod labels {
    /// On every child: the HTTPProxy it belongs to.
    pub const PROXY: &str = "tunnel.aplomb.dev/http-proxy";
    /// The standard label of an EndpointSlice.
    pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
    /// The value of that label on our EndpointSlices.
    pub const MANAGER: &str = "tunnel.aplomb.dev";
}

/// Annotations.
pub mod annotations {
    /// On an EndpointSlice: the Connector of its namespace that dials the endpoint.
    pub const CONNECTOR: &str = "tunnel.aplomb.dev/connector";
    /// On an EndpointSlice: the URL to dial.
    pub const ENDPOINT: &str = "tunnel.aplomb.dev/endpoint";
    /// On an EndpointSlice: the name that the certificate of an https origin must have.
    pub const TLS_HOSTNAME: &str = "tunnel.aplomb.dev/tls-hostname";
    /// On a Gateway: the ConnectorClass of its HTTPProxy, if it is not the default.
    pub const CLASS: &str = "tunnel.aplomb.dev/connector-class";
    /// On an HTTPRoute: the generation of the HTTPProxy it was generated from.
    pub const GENERATION: &str = "tunnel.aplomb.dev/generation";
}

/// Headers and paths of the public listener.
pub mod headers {
    /// Why the gateway itself answered, as one of [`super::reasons`]; see `docs/tunnel.md`.
    pub const REASON: &str = "x-aplomb-reason";
    /// The configuration that served the response.
    pub const REVISION: &str = "x-aplomb-revision";
    /// A statement to be proven: base64url of its JSON.
    pub const PROOF: &str = "x-aplomb-proof";
    /// The path of proof requests; `?rule=N` names the rule.
    pub const PROOF_PATH: &str = "/.well-known/aplomb/proof";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_hostnames_are_recognized_by_their_form() {
        let uid = "9c7f2f9e-6a1f-4c38-8a7e-0d4f5b2f7f11";
        let name = canonical_hostname(uid, "tunnels.example.com");
        assert!(is_canonical(&name, "tunnels.example.com"), "{name}");
        assert_eq!(name, canonical_hostname(uid, "tunnels.example.com"));
        assert!(!is_canonical("app.tunnels.example.com", "tunnels.example.com"));
        assert!(!is_canonical(&name, "example.com"));
        let label = canonical_label(uid);
        assert_eq!(split_canonical(&name), Some((&*label, "tunnels.example.com")));
        for other in ["app.tunnels.example.com", "localhost", ".", "", &label] {
            assert_eq!(split_canonical(other), None, "{other}");
        }
    }
}
