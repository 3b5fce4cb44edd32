//! Verifies a proof: this nonce, the current state of this tunnel, this Connector, this agent session,
//! through this gateway, signed with the Connector's key. Pure.

use aplomb_tunnel_protocol::{OriginState, Proof, ProofStatement};
use iroh_base::{PublicKey, Signature};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProofRejection {
    /// It is about something else: an older nonce, or another tunnel, generation, Connector or session.
    OtherStatement,
    /// It came through another gateway than the one that was probed.
    OtherGateway,
    NotSigned,
}

impl ProofRejection {
    pub(crate) const fn message(self) -> &'static str {
        match self {
            Self::OtherStatement => "the proof is about another nonce, tunnel, generation, Connector or session",
            Self::OtherGateway => "the proof came through another gateway",
            Self::NotSigned => "the proof is not signed with the connector's key",
        }
    }
}

/// Checks `proof` against the statement in `asked`, and returns the origin state that it contains.
pub(crate) fn verify_proof(
    proof: &Proof,
    asked: &ProofStatement,
    gateway: &str,
    key: &str,
) -> Result<OriginState, ProofRejection> {
    if proof.statement != *asked {
        return Err(ProofRejection::OtherStatement);
    }
    if proof.gateway != gateway {
        return Err(ProofRejection::OtherGateway);
    }
    let key = decode_hex::<32>(key).and_then(|it| PublicKey::from_bytes(&it).ok());
    let signature = decode_hex::<64>(&proof.signature).map(|it| Signature::from_bytes(&it));
    let (Some(key), Some(signature)) = (key, signature) else {
        return Err(ProofRejection::NotSigned);
    };
    let signed = Proof::signed_bytes(&proof.statement, &proof.gateway, proof.origin);
    match key.verify(&signed, &signature) {
        Ok(()) => Ok(proof.origin),
        Err(_) => Err(ProofRejection::NotSigned),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes exactly `N` bytes from hex.
fn decode_hex<const N: usize>(hex: &str) -> Option<[u8; N]> {
    if hex.len() != 2 * N || !hex.is_ascii() {
        return None;
    }
    let mut bytes = [0; N];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use aplomb_tunnel_protocol::ConnectorId;
    use iroh_base::SecretKey;

    use super::*;

    fn statement() -> ProofStatement {
        ProofStatement {
            nonce: "0f".repeat(32),
            tunnel: "uid".to_owned(),
            generation: 3,
            connector: ConnectorId {
                namespace: "team-a".to_owned(),
                uid: "u1".to_owned(),
            },
            session: "s1".to_owned(),
        }
    }

    fn signed(key: &SecretKey, statement: &ProofStatement) -> Proof {
        let bytes = Proof::signed_bytes(statement, "gateway", OriginState::Reachable);
        Proof {
            statement: statement.clone(),
            gateway: "gateway".to_owned(),
            origin: OriginState::Reachable,
            signature: hex(&key.sign(&bytes).to_bytes()),
        }
    }

    fn new_keys() -> (SecretKey, String) {
        let key = SecretKey::from_bytes(&[7; 32]);
        let public = hex(key.public().as_bytes());
        (key, public)
    }

    #[test]
    fn a_proof_of_what_was_asked_is_accepted() {
        let (key, public) = new_keys();
        let proof = signed(&key, &statement());
        let origin = verify_proof(&proof, &statement(), "gateway", &public);
        assert_eq!(origin, Ok(OriginState::Reachable));
    }

    #[test]
    fn a_replayed_or_moved_proof_is_refused() {
        let (key, public) = new_keys();
        let old = signed(&key, &statement());
        let others: [fn(&mut ProofStatement); 6] = [
            |it| it.nonce = "10".repeat(32),
            |it| it.tunnel.push('x'),
            |it| it.generation += 1,
            |it| it.session.push('x'),
            |it| it.connector.namespace = "mallory".to_owned(),
            |it| it.connector.uid = "u2".to_owned(),
        ];
        for change in others {
            let mut asked = statement();
            change(&mut asked);
            let said = verify_proof(&old, &asked, "gateway", &public);
            assert_eq!(said, Err(ProofRejection::OtherStatement));
        }
        let elsewhere = verify_proof(&old, &statement(), "another", &public);
        assert_eq!(elsewhere, Err(ProofRejection::OtherGateway));
    }

    #[test]
    fn a_forged_proof_is_refused() {
        let (_, public) = new_keys();
        let forger = SecretKey::from_bytes(&[8; 32]);
        let forged = signed(&forger, &statement());
        let said = verify_proof(&forged, &statement(), "gateway", &public);
        assert_eq!(said, Err(ProofRejection::NotSigned));
        let mut altered = signed(&new_keys().0, &statement());
        altered.origin = OriginState::Unreachable;
        let said = verify_proof(&altered, &statement(), "gateway", &public);
        assert_eq!(said, Err(ProofRejection::NotSigned));
    }
}
