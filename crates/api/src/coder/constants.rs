//! Names that are part of the interface: conditions, reasons, labels, annotations, and how long names are shortened.

use sha2::{Digest, Sha256};

/// Keeps an object until its key or proxy is deleted from the server.
pub const FINALIZER: &str = "coder.aplomb.dev/cleanup";
/// Keeps a Secret while its token is needed to delete a key or proxy from the server.
pub const TOKEN_FINALIZER: &str = "coder.aplomb.dev/token";
/// Maximum length of a key name in coderd.
pub const MAX_NAME_LENGTH: usize = 64;
/// Maximum length of a proxy name: coderd applies its limit for user names.
pub const MAX_PROXY_NAME_LENGTH: usize = 32;
/// Key names that coderd reserves.
pub const RESERVED_KEY_NAMES: [&str; 3] = ["built-in", "user-auth", "psk"];

/// `name` if it fits into `most` characters, else its beginning and a hash of the whole name. Never ends in a
/// character that a name must not end in.
#[must_use]
pub fn truncate_name(name: &str, most: usize) -> String {
    if name.len() <= most {
        return name.to_owned();
    }
    let hash = crate::hex(&Sha256::digest(name.as_bytes())[..4]);
    let mut end = most.saturating_sub(hash.len() + 1);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let begin = name[..end].trim_end_matches(['-', '.', '_']);
    format!("{begin}-{hash}")
}

/// A suffix that distinguishes the resources of the object with this UID from those of any other object,
/// cluster or user.
#[must_use]
pub fn owner_suffix(uid: &str) -> String {
    crate::hex(&Sha256::digest(uid.as_bytes())[..4])
}

/// The name of the key that an object creates after `sequence` others of the same `base`. It contains the mark
/// of the object and, after the first, the number, so that its creator can be read from it.
#[must_use]
pub fn key_name(base: &str, uid: &str, sequence: u32) -> String {
    let end = match sequence {
        0 => format!("-{}", owner_suffix(uid)),
        _ => format!("-{}-{sequence}", owner_suffix(uid)),
    };
    format!("{}{end}", truncate_name(base, MAX_NAME_LENGTH - end.len()))
}

/// Whether [`key_name`] made this name for the object of this UID.
#[must_use]
pub fn is_owned_key_name(name: &str, uid: &str) -> bool {
    let mark = owner_suffix(uid);
    name.rsplit('-').take(2).any(|part| part == mark)
}

/// Whether a name has the form that [`key_name`] produces, for any object.
#[must_use]
pub fn has_owner_suffix(name: &str) -> bool {
    let hex = |it: u8| matches!(it, b'0'..=b'9' | b'a'..=b'f');
    let is_mark = |part: &str| part.len() == 8 && part.bytes().all(hex);
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    let Some((rest, last)) = name.rsplit_once('-') else {
        return false;
    };
    let before = rest.rsplit_once('-').map(|(_, part)| part);
    is_mark(last) || (is_number(last) && before.is_some_and(is_mark))
}

/// The name of a key without a mark, as users and earlier versions name keys.
#[must_use]
pub fn unsuffixed_key_name(base: &str, sequence: u32) -> String {
    match sequence {
        0 => truncate_name(base, MAX_NAME_LENGTH),
        _ => truncate_name(&format!("{base}-{sequence}"), MAX_NAME_LENGTH),
    }
}

/// The name of the proxy of an object called `base` whose spec does not name one.
#[must_use]
pub fn proxy_name(base: &str) -> String {
    truncate_name(base, MAX_PROXY_NAME_LENGTH)
}

/// Condition types.
#[allow(missing_docs, reason = "docs/coder.md says what each means")]
pub mod conditions {
    pub const CONTROL_PLANE_READY: &str = "ControlPlaneReady";
    pub const OPERATOR_ACCESS_READY: &str = "OperatorAccessReady";
    pub const ENTITLED: &str = "ExternalProvisionersEntitled";
    pub const KEY_READY: &str = "ProvisionerKeyReady";
    pub const KEY_SECRET_READY: &str = "ProvisionerKeySecretReady";
    pub const DEPLOYMENT_READY: &str = "DeploymentReady";
    pub const DAEMONS_CONNECTED: &str = "DaemonsConnected";
    pub const READY: &str = "Ready";
    /// Only for a CoderWorkspaceProxy.
    pub const PROXY_ENTITLED: &str = "WorkspaceProxiesEntitled";
    pub const REGISTERED: &str = "Registered";
    pub const TOKEN_SECRET_READY: &str = "ProxyTokenSecretReady";
    pub const PROXY_HEALTHY: &str = "ProxyHealthy";
}

/// Reasons of conditions.
#[allow(missing_docs, reason = "docs/coder.md says what each means")]
pub mod reasons {
    pub const CONTROL_PLANE_AVAILABLE: &str = "ControlPlaneAvailable";
    pub const CONTROL_PLANE_UNAVAILABLE: &str = "ControlPlaneUnavailable";
    pub const SERVER_UNREACHABLE: &str = "ServerUnreachable";
    pub const INVALID_CA_BUNDLE: &str = "InvalidCABundle";
    pub const ACCESS_READY: &str = "OperatorAccessReady";
    pub const ACCESS_NOT_READY: &str = "OperatorAccessNotReady";
    pub const TOKEN_REF_MISSING: &str = "OperatorTokenSecretRefMissing";
    pub const TOKEN_UNAVAILABLE: &str = "OperatorTokenSecretUnavailable";
    pub const TOKEN_REJECTED: &str = "TokenRejected";
    pub const TOKEN_OF_OTHER_SERVER: &str = "TokenOfOtherServer";
    pub const ENTITLED: &str = "Entitled";
    pub const NOT_ENTITLED: &str = "NotEntitled";
    pub const NOT_SUPPORTED: &str = "NotSupported";
    pub const FORBIDDEN: &str = "Forbidden";
    pub const QUERY_FAILED: &str = "EntitlementsQueryFailed";
    pub const KEY_READY: &str = "ProvisionerKeyReady";
    pub const KEY_FAILED: &str = "ProvisionerKeyFailed";
    pub const KEY_PENDING: &str = "ProvisionerKeyPending";
    pub const KEY_FOREIGN: &str = "ProvisionerKeyNotOurs";
    pub const ORGANIZATION_NOT_FOUND: &str = "OrganizationNotFound";
    pub const RATE_LIMITED: &str = "RateLimited";
    pub const WAITING_FOR_BUDGET: &str = "WaitingForBudget";
    pub const SECRET_READY: &str = "SecretReady";
    pub const SECRET_NOT_OURS: &str = "SecretNotOurs";
    pub const SECRET_PENDING: &str = "SecretPending";
    pub const IMAGE_MISSING: &str = "ImageMissing";
    pub const REPLICAS_READY: &str = "MinimumReplicasReady";
    pub const NO_REPLICAS_READY: &str = "NoReplicasReady";
    pub const SCALED_TO_ZERO: &str = "ScaledToZero";
    pub const ALL_CONNECTED: &str = "AllConnected";
    pub const SOME_CONNECTED: &str = "SomeConnected";
    pub const NONE_CONNECTED: &str = "NoneConnected";
    pub const REGISTERED: &str = "Registered";
    pub const NOT_REGISTERED: &str = "NotRegistered";
    pub const REGISTRATION_FAILED: &str = "RegistrationFailed";
    pub const PROXY_FOREIGN: &str = "ProxyNotOurs";
    pub const HEALTHY: &str = "Healthy";
    pub const UNHEALTHY: &str = "Unhealthy";
    pub const PROVEN: &str = "Proven";
    pub const DELETING: &str = "Deleting";
    pub const STALE: &str = "Stale";
}

/// Labels of children.
pub mod labels {
    /// The value of `app.kubernetes.io/name` for provisioners.
    pub const PROVISIONER: &str = "coder-provisioner";
    /// The value of `app.kubernetes.io/name` for workspace proxies.
    pub const PROXY: &str = "coder-workspace-proxy";
    /// The value of `app.kubernetes.io/managed-by`.
    pub const MANAGER: &str = "aplomb-coder";
}

/// Annotations.
pub mod annotations {
    /// On a CoderProvisioner or CoderWorkspaceProxy: any new value rotates the key or token.
    pub const ROTATE: &str = "coder.aplomb.dev/rotate";
    /// On either: `"true"` lets a deletion finish without the server.
    pub const ABANDON: &str = "coder.aplomb.dev/abandon";
    /// On the Secret: the name of the key whose plaintext it holds, so that after a crash a current key is
    /// distinguished from an earlier one. On a proxy's Secret: the id of the proxy.
    pub const KEY_NAME: &str = "coder.aplomb.dev/key-name";
    /// On the Secret: a digest of the plaintext stored there.
    pub const KEY_DIGEST: &str = "coder.aplomb.dev/key-digest";
    /// On a token Secret: the URLs of the servers that the token may be sent to, separated by commas. An
    /// object with `server.url` can use a token only if the token's Secret lists that URL.
    pub const SERVERS: &str = "coder.aplomb.dev/servers";
    /// On a pod template: a hash of the Secret data that the pods read.
    pub const CHECKSUM: &str = "coder.aplomb.dev/secret-checksum";
    /// On a pod template: when pods that did not connect were last restarted.
    pub const RESTARTED: &str = "coder.aplomb.dev/restarted-at";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_ends_in_a_hash_and_never_in_a_dash() {
        let name = format!("{}-{}", "a".repeat(54), "b".repeat(54));
        let short = truncate_name(&name, MAX_NAME_LENGTH);
        assert!(short.len() <= MAX_NAME_LENGTH, "{short}");
        assert!(!short.contains("--"), "{short}");
        assert_ne!(short, truncate_name(&format!("{name}x"), MAX_NAME_LENGTH));
    }

    #[test]
    fn later_names_of_a_long_base_differ() {
        let base = "c".repeat(64);
        assert_eq!(unsuffixed_key_name(&base, 0), base);
        assert_ne!(unsuffixed_key_name(&base, 1), unsuffixed_key_name(&base, 2));
        assert_eq!(unsuffixed_key_name("team", 2), "team-2");
    }

    #[test]
    fn a_key_name_identifies_its_owner() {
        for base in ["team", "team-1", &"c".repeat(64), &"c-".repeat(32)] {
            for number in [0, 1, 2, 4_000_000_000] {
                let name = key_name(base, "one", number);
                assert!(name.len() <= MAX_NAME_LENGTH, "{name}");
                assert!(!name.contains("--"), "{name}");
                assert!(
                    is_owned_key_name(&name, "one") && !is_owned_key_name(&name, "two"),
                    "{name}"
                );
                assert!(has_owner_suffix(&name), "{name}");
                assert_ne!(name, key_name(base, "two", number));
                assert_ne!(name, key_name(base, "one", number ^ 8));
            }
        }
        assert!(!is_owned_key_name("team", "one") && !is_owned_key_name("team-1", "one"));
        for name in [
            "team",
            "team-1",
            "cafecafe",
            "team-cafe-1",
            "team-Cafecafe",
            "cafecafe-1",
        ] {
            assert!(!has_owner_suffix(name), "{name}");
        }
    }
}
