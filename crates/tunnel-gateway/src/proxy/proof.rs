//! The well-known path for proofs: the request takes the same path to the agent as traffic, and the agent's
//! response is returned unchanged. Nothing here signs or verifies a proof.

use std::time::Duration;

use aplomb_api::tunnel::headers::PROOF;
use aplomb_tunnel_protocol::{MAX_PROBE_TIMEOUT, ProofStatement, proof_timeout};
use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use http::request::Parts;
use tokio::time::{Instant, timeout_at};

use super::error_response::ErrorResponse;
use super::shared::ProxyShared;
use crate::origin::DialError;
use crate::reason;
use crate::routing::{OriginAddress, OriginTarget, RouteAction, VirtualHost};

/// The response if no agent signs: the origin accepted a connection, or none is needed.
const REACHED_BODY: &str = r#"{"reached":true}"#;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The response to a proof request, as JSON.
pub(super) async fn handle_proof(
    core: &ProxyShared,
    (host, tls): (&VirtualHost, bool),
    head: &Parts,
) -> Result<String, ErrorResponse> {
    let statement = parse_statement(head)?;
    let tunnel = &host.tunnel;
    if statement.tunnel != tunnel.uid || statement.generation != tunnel.generation {
        let detail = format!("generation {} of {}", tunnel.generation, tunnel.uid);
        return Err(ErrorResponse::new(409, reason::OTHER_GENERATION, detail));
    }
    let ProofQuery {
        rule,
        timeout: patience,
    } = parse_query(head.uri.query().unwrap_or_default())?;
    let mut routes = host.routes.iter().filter(|it| it.protocols.includes(tls));
    let route = routes.find(|route| route.rule == rule);
    let no_rule = || ErrorResponse::new(404, reason::NO_ROUTE, format!("no rule {rule}"));
    let origin = match &route.ok_or_else(no_rule)?.action {
        RouteAction::Forward(origin) => origin,
        RouteAction::Redirect => return Ok(REACHED_BODY.to_owned()),
        RouteAction::NoBackend { status, reason } => {
            return Err(ErrorResponse::new(*status, reason, "the rule has no usable backend"));
        }
    };
    // A signed statement always names the Connector that this gateway looked up.
    if let OriginAddress::Connector(target) = &origin.target
        && statement.connector != target.connector_id()
    {
        let detail = format!("this gateway routes the tunnel to {:?}", target.connector_id());
        return Err(ErrorResponse::new(409, reason::OTHER_SESSION, detail));
    }
    let too_many = || ErrorResponse::new(503, reason::TOO_MANY, "too many proofs at once");
    let _share = core.proof_limit.try_acquire(tunnel.uid.clone()).ok_or_else(too_many)?;
    let work = core.limits.dial_timeout.min(proof_timeout(patience));
    let deadline = Instant::now() + work;
    let proven = request_proof(core, origin, &statement, deadline);
    let proven = timeout_at(deadline + work / 4, proven).await;
    Ok(proven.map_err(|_| DialError::TimedOut)??)
}

/// The agent's proof, or confirmation that an origin without an agent accepts connections.
async fn request_proof(
    core: &ProxyShared,
    origin: &OriginTarget,
    statement: &ProofStatement,
    deadline: Instant,
) -> Result<String, DialError> {
    match &origin.target {
        OriginAddress::Connector(_) => {
            let proof = core.dialer.prove(origin, statement, deadline).await?;
            Ok(serde_json::to_string(&proof).expect("a proof is plain JSON"))
        }
        OriginAddress::Addresses(_) => {
            core.dialer.dial(origin, deadline).await?;
            Ok(REACHED_BODY.to_owned())
        }
    }
}

fn parse_statement(head: &Parts) -> Result<ProofStatement, ErrorResponse> {
    let refuse = |what: &str| ErrorResponse::bad_request(format!("{PROOF} {what}"));
    let given = head.headers.get(PROOF).ok_or_else(|| refuse("is missing"))?;
    let json = BASE64
        .decode(given.as_bytes())
        .map_err(|_| refuse("is not base64url"))?;
    serde_json::from_slice(&json).map_err(|_| refuse("is not a proof statement"))
}

/// The query parameters.
struct ProofQuery {
    /// The rule; the first if unset.
    rule: usize,
    /// How long the prober waits; the maximum if unset.
    timeout: Duration,
}

fn parse_query(query: &str) -> Result<ProofQuery, ErrorResponse> {
    let number = |name: &str| {
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        let found = pairs.find(|(key, _)| key == name);
        let wrong = |_| ErrorResponse::bad_request(format!("{name} is not a number"));
        found.map(|(_, value)| value.parse::<u32>().map_err(wrong)).transpose()
    };
    let patience = number("within")?.map(|millis| Duration::from_millis(millis.into()));
    let rule = usize::try_from(number("rule")?.unwrap_or_default());
    Ok(ProofQuery {
        rule: rule.unwrap_or(usize::MAX),
        timeout: patience.unwrap_or(MAX_PROBE_TIMEOUT),
    })
}
