//! JSON Web Tokens signed with ES256, and the key they are checked with.
//!
//! The key is made when the first token is asked for. It and the signatures are the one thing in a
//! box that its seed does not decide; nothing the box does depends on their bytes.

use std::io;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::storage::Secrets;

/// The name under which the key is kept.
const KEY: &str = "service-account.key";

/// What comes before the point in the DER of a P-256 public key.
const P256_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// Signs tokens and checks them.
pub(crate) struct Signer {
    key: EcdsaKeyPair,
    id: String,
}

fn generate() -> EcdsaKeyPair {
    EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a P-256 key can always be made")
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Signer {
    /// With a key nobody else has.
    pub(crate) fn new() -> Self {
        Self::of(generate())
    }

    /// With the key that is kept with a cluster, so that its tokens outlive a restart.
    pub(crate) fn kept(secrets: &Secrets) -> Self {
        let make = || -> io::Result<String> {
            let document = generate().to_pkcs8v1().map_err(io::Error::other)?;
            Ok(STANDARD.encode(document.as_ref()))
        };
        let kept = secrets.get_or_make(KEY, make).and_then(|text| {
            let bytes = STANDARD.decode(text).map_err(io::Error::other)?;
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &bytes).map_err(io::Error::other)
        });
        match kept {
            Ok(key) => Self::of(key),
            Err(error) => {
                tracing::error!(%error, "The key of service account tokens cannot be kept; tokens end with this process");
                Self::new()
            }
        }
    }

    fn of(key: EcdsaKeyPair) -> Self {
        let mut digest = Sha256::new();
        digest.update(P256_PREFIX);
        digest.update(key.public_key().as_ref());
        let id = URL_SAFE_NO_PAD.encode(digest.finalize());
        Self { key, id }
    }

    /// A token that says `claims`.
    pub(crate) fn sign(&self, claims: &Value) -> String {
        let head = json!({ "alg": "ES256", "kid": self.id });
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", part(&head), part(claims));
        let signature = self
            .key
            .sign(&SystemRandom::new(), text.as_bytes())
            .expect("a P-256 key signs anything");
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// What a token of this signer claims; `None` for any other.
    pub(crate) fn claims(&self, token: &str) -> Option<Value> {
        let (text, signature) = token.rsplit_once('.')?;
        let (_, claims) = text.split_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.key.public_key().as_ref())
            .verify(text.as_bytes(), &signature)
            .ok()?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
    }

    /// The public key, for whoever wants to check a token without asking.
    pub(crate) fn key_set(&self) -> Value {
        let point = self.key.public_key().as_ref();
        let half = |from: usize| URL_SAFE_NO_PAD.encode(&point[from..from + 32]);
        json!({ "keys": [{
            "use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": "ES256",
            "x": half(1), "y": half(33),
        }] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_key_reads_the_tokens_of_before() {
        let secrets = Secrets::default();
        let token = Signer::kept(&secrets).sign(&json!({ "sub": "somebody" }));
        assert!(Signer::kept(&secrets).claims(&token).is_some());
    }

    #[test]
    fn a_token_is_read_by_its_signer_alone() {
        let (one, other) = (Signer::new(), Signer::new());
        let token = one.sign(&json!({ "sub": "a" }));
        assert_eq!(one.claims(&token), Some(json!({ "sub": "a" })));
        assert_eq!(other.claims(&token), None);
        let (head, rest) = token.split_once('.').expect("three parts");
        let (_, signature) = rest.split_once('.').expect("three parts");
        let forged = URL_SAFE_NO_PAD.encode(json!({ "sub": "b" }).to_string());
        assert_eq!(one.claims(&format!("{head}.{forged}.{signature}")), None);
        assert_eq!(one.claims("no token"), None);
    }
}
