//! The stable values of `X-Aplomb-Reason`: why the gateway itself responded. Each value has one cause and
//! never changes its meaning.

/// 404: the hostname does not belong to a tunnel.
pub const UNKNOWN_HOST: &str = "UnknownHost";
/// 404: no rule of the tunnel matches the request.
pub const NO_ROUTE: &str = "NoRoute";
/// 503: the connector has no session.
pub const CONNECTOR_OFFLINE: &str = "ConnectorOffline";
/// 503: the HTTPProxy names a Connector that does not exist.
pub const CONNECTOR_NOT_FOUND: &str = "ConnectorNotFound";
/// 502: the origin did not accept the connection.
pub const ORIGIN_UNREACHABLE: &str = "OriginUnreachable";
/// 502: the origin closed the connection or did not respond with HTTP.
pub const ORIGIN_BROKEN: &str = "OriginBroken";
/// 504: the origin did not respond in time.
pub const ORIGIN_TIMEOUT: &str = "OriginTimeout";
/// 403: the agent does not expose the target.
pub const ORIGIN_NOT_EXPOSED: &str = "OriginNotExposed";
/// 403: the agent rejected the Connector, or tenants may not reach the address.
pub const UNAUTHORISED: &str = "Unauthorised";
/// 503: the tunnel has reached its limit of requests or connections.
pub const TOO_MANY: &str = "TooMany";
/// 409: the proof is for a generation that this gateway does not serve.
pub const OTHER_GENERATION: &str = "OtherGeneration";
/// 400: the request is malformed.
pub const BAD_REQUEST: &str = "BadRequest";
/// 409: the proof is for an earlier session of the agent, or for another Connector.
pub const OTHER_SESSION: &str = "OtherSession";
/// 408: the client stopped sending its body.
pub const CLIENT_TIMEOUT: &str = "ClientTimeout";
/// 499, in logs and metrics only: the client disconnected.
pub const CLIENT_GONE: &str = "ClientGone";

/// All values.
pub const ALL: [&str; 15] = [
    UNKNOWN_HOST,
    NO_ROUTE,
    CONNECTOR_OFFLINE,
    CONNECTOR_NOT_FOUND,
    ORIGIN_UNREACHABLE,
    ORIGIN_BROKEN,
    ORIGIN_TIMEOUT,
    ORIGIN_NOT_EXPOSED,
    UNAUTHORISED,
    TOO_MANY,
    OTHER_GENERATION,
    BAD_REQUEST,
    OTHER_SESSION,
    CLIENT_TIMEOUT,
    CLIENT_GONE,
];
