//! Handles one stream of a gateway. Whether the gateway is allowed was checked before the stream was accepted.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aplomb_tunnel_protocol::{
    ConnectorId, FrameError, Proof, ProofStatement, StreamRefusal, StreamReply, StreamRequest, origin_check_timeout,
    read_message, write_message,
};
use iroh::endpoint::{RecvStream, SendStream, VarInt};
use iroh::{EndpointId, SecretKey};
use tokio::io::copy_bidirectional_with_sizes;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, timeout};

use crate::event::AgentEvent;
use crate::origin::OriginPool;

/// How long a gateway may take to send its request.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);
/// Size of the copy buffer, per direction.
const BUFFER_BYTES: usize = 32 * 1024;
const MAX_STREAMS: usize = 4096;
/// Rate limit and burst of proofs.
const PROOFS_PER_SECOND: f64 = 200.0;
const PROOF_BURST: f64 = 1000.0;
/// The response to a request for another agent session or another agent.
const OTHER_SESSION_MESSAGE: &str = "the request is for another session of the agent";
/// The response to a request for another Connector.
const OTHER_CONNECTOR_MESSAGE: &str = "the agent does not serve this Connector";
/// The message on both sides if a gateway uses another version of the protocol.
const OTHER_VERSION_MESSAGE: &str = "gateway and agent must have the same version: upgrade the older one";
/// Minimum time between two refusal events.
const REFUSAL_REPORT_INTERVAL: Duration = Duration::from_secs(60);
/// The reset code of a stream after a failure of the origin.
const ORIGIN_BROKEN_CODE: VarInt = VarInt::from_u32(1);

#[derive(Debug)]
pub struct StreamHandler {
    origins: OriginPool,
    key: SecretKey,
    connector: ConnectorId,
    session: String,
    events: mpsc::UnboundedSender<AgentEvent>,
    /// When the last refusal event was reported.
    last_refusal_report: Mutex<Option<Instant>>,
    streams: Arc<Semaphore>,
    proofs: Mutex<ProofBucket>,
}

impl StreamHandler {
    /// For this agent session, which serves only `connector`.
    #[must_use]
    pub fn new(
        origins: OriginPool,
        key: SecretKey,
        connector: ConnectorId,
        session: String,
        events: mpsc::UnboundedSender<AgentEvent>,
    ) -> Self {
        Self {
            origins,
            key,
            connector,
            session,
            events,
            last_refusal_report: Mutex::default(),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
            proofs: Mutex::new(ProofBucket::new(PROOFS_PER_SECOND, PROOF_BURST)),
        }
    }

    pub(crate) async fn serve_stream(&self, gateway: EndpointId, send: SendStream, recv: RecvStream) {
        let mut stream = GatewayStream { send, recv };
        let Ok(_permit) = self.streams.try_acquire() else {
            return stream.refuse(StreamRefusal::TooMany, "too many streams").await;
        };
        let open = match timeout(OPEN_TIMEOUT, read_message::<StreamRequest>(&mut stream.recv)).await {
            Ok(Ok(open)) => open,
            Ok(Err(FrameError::Stream(_))) | Err(_) => return stream.reset(),
            Ok(Err(error)) => {
                self.report_refusal(format!("a gateway sent an invalid message: {OTHER_VERSION_MESSAGE}"));
                let message = format!("{error}; {OTHER_VERSION_MESSAGE}");
                return stream.refuse(StreamRefusal::Malformed, &message).await;
            }
        };
        match open {
            StreamRequest::Dial {
                connector,
                session,
                target,
                tls,
            } => match self.identity_refusal(&connector, &session) {
                Some((refusal, message)) => stream.refuse(refusal, message).await,
                None => self.dial(&mut stream, &target, tls.as_deref()).await,
            },
            StreamRequest::Prove {
                statement,
                within,
                target,
                tls,
            } => {
                let limit = origin_check_timeout(Duration::from_millis(within));
                let origin = (&*target, tls.as_deref(), limit);
                let proof = self.prove(gateway, statement, origin);
                stream.reply(&proof.await).await;
            }
        }
    }

    /// Why this agent must refuse this Connector or session, if so.
    fn identity_refusal(&self, connector: &ConnectorId, session: &str) -> Option<(StreamRefusal, &'static str)> {
        if *connector != self.connector {
            let ConnectorId { namespace, uid } = connector;
            let own = &self.connector.namespace;
            self.report_refusal(format!(
                "a Connector in namespace {namespace:?} (UID {uid:?}) uses this agent's key but is not the \
                 one it registered: check who may read Connectors in namespace {own:?}"
            ));
            return Some((StreamRefusal::OtherConnector, OTHER_CONNECTOR_MESSAGE));
        }
        (session != self.session).then_some((StreamRefusal::OtherSession, OTHER_SESSION_MESSAGE))
    }

    /// Reports a refusal, at most once per [`QUIET`].
    fn report_refusal(&self, message: String) {
        let now = Instant::now();
        let mut reported = self.last_refusal_report.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.is_none_or(|last| now >= last + REFUSAL_REPORT_INTERVAL) {
            *reported = Some(now);
            // The receiver may be dropped.
            drop(self.events.send(AgentEvent::Refused { message }));
        }
    }

    async fn dial(&self, stream: &mut GatewayStream, target: &str, tls: Option<&str>) {
        let Some(known) = self.origins.find(target) else {
            return stream
                .refuse(StreamRefusal::NotExposed, &not_exposed_message(target))
                .await;
        };
        let mut origin = match self.origins.connect(&known, tls).await {
            Ok(origin) => origin,
            Err(error) => {
                let message = format!("{known}: {error}");
                return stream.refuse(StreamRefusal::OriginUnreachable, &message).await;
            }
        };
        if write_message(&mut stream.send, &StreamReply::Connected).await.is_err() {
            return stream.reset();
        }
        let mut both = tokio::io::join(&mut stream.recv, &mut stream.send);
        let copied = copy_bidirectional_with_sizes(&mut both, &mut origin, BUFFER_BYTES, BUFFER_BYTES).await;
        if copied.is_err() {
            // Finishing the stream would make a truncated response look complete.
            stream.reset();
        }
    }

    async fn prove(
        &self,
        gateway: EndpointId,
        statement: ProofStatement,
        (target, tls, limit): (&str, Option<&str>, Duration),
    ) -> StreamReply {
        if !is_nonce(&statement.nonce) {
            return refusal_reply(StreamRefusal::Malformed, "the nonce is not 32 bytes in hex");
        }
        if let Some((refusal, message)) = self.identity_refusal(&statement.connector, &statement.session) {
            return refusal_reply(refusal, message);
        }
        let Some(known) = self.origins.find(target) else {
            return refusal_reply(StreamRefusal::NotExposed, &not_exposed_message(target));
        };
        let proofs = self.proofs.lock();
        let allowed = proofs.unwrap_or_else(PoisonError::into_inner).try_take(Instant::now());
        if !allowed {
            return refusal_reply(StreamRefusal::TooMany, "too many proofs");
        }
        let origin = self.origins.probe(&known, tls, limit).await;
        let gateway = gateway.to_string();
        let signed = Proof::signed_bytes(&statement, &gateway, origin);
        let signature = self.key.sign(&signed).to_bytes();
        StreamReply::Proof(Proof {
            statement,
            gateway,
            origin,
            signature: signature.iter().map(|b| format!("{b:02x}")).collect(),
        })
    }
}

/// A stream whose two halves end together.
struct GatewayStream {
    send: SendStream,
    recv: RecvStream,
}

impl GatewayStream {
    async fn refuse(&mut self, refusal: StreamRefusal, message: &str) {
        self.reply(&refusal_reply(refusal, message)).await;
    }

    async fn reply(&mut self, reply: &StreamReply) {
        match write_message(&mut self.send, reply).await {
            // An error means that the stream has already ended.
            Ok(()) => drop(self.send.finish()),
            Err(_) => self.reset(),
        }
    }

    /// Errors mean that the stream has already ended.
    fn reset(&mut self) {
        drop(self.send.reset(ORIGIN_BROKEN_CODE));
        drop(self.recv.stop(ORIGIN_BROKEN_CODE));
    }
}

fn refusal_reply(refusal: StreamRefusal, message: &str) -> StreamReply {
    StreamReply::Refused {
        refusal,
        message: message.to_owned(),
    }
}

fn not_exposed_message(target: &str) -> String {
    // Limits how much of the peer's text is echoed.
    let shown: String = target.chars().take(128).collect();
    format!("{shown:?} is not exposed by this agent")
}

fn is_nonce(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

#[derive(Debug)]
struct ProofBucket {
    rate: f64,
    size: f64,
    tokens: f64,
    refilled_at: Instant,
}

impl ProofBucket {
    fn new(rate: f64, size: f64) -> Self {
        Self {
            rate,
            size,
            tokens: size,
            refilled_at: Instant::now(),
        }
    }

    fn try_take(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.refilled_at).as_secs_f64();
        self.tokens = (self.tokens + passed * self.rate).min(self.size);
        self.refilled_at = now;
        let allowed = self.tokens >= 1.0;
        self.tokens -= if allowed { 1.0 } else { 0.0 };
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn proofs_come_at_a_bounded_rate() {
        let mut bucket = ProofBucket::new(10.0, 3.0);
        let now = Instant::now();
        let taken = (0..10).filter(|_| bucket.try_take(now)).count();
        assert_eq!(taken, 3);
        let later = now + Duration::from_millis(100);
        assert!(bucket.try_take(later) && !bucket.try_take(later));
    }

    #[test]
    fn a_nonce_is_32_bytes_in_hex() {
        assert!(is_nonce(&"0f".repeat(32)));
        for bad in ["", "0f", &"0g".repeat(32), &"0f".repeat(33)] {
            assert!(!is_nonce(bad), "{bad}");
        }
    }
}
