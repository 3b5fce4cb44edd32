//! The stable words of `X-Aplomb-Reason`: why the gateway itself answered. One word, one cause; a word
//! never changes its meaning.

/// 404: no tunnel has this hostname.
pub const UNKNOWN_HOST: &str = "UnknownHost";
/// 404: the tunnel has no rule for this request.
pub const NO_ROUTE: &str = "NoRoute";
/// 503: the connector has no session.
pub const CONNECTOR_OFFLINE: &str = "ConnectorOffline";
/// 503: the HTTPProxy names a Connector that does not exist.
pub const CONNECTOR_NOT_FOUND: &str = "ConnectorNotFound";
/// 502: the origin did not take the connection.
pub const ORIGIN_UNREACHABLE: &str = "OriginUnreachable";
/// 502: the origin broke off or spoke no HTTP.
pub const ORIGIN_BROKEN: &str = "OriginBroken";
/// 504: the origin took too long.
pub const ORIGIN_TIMEOUT: &str = "OriginTimeout";
/// 403: the agent does not expose the target.
pub const ORIGIN_NOT_EXPOSED: &str = "OriginNotExposed";
/// 403: the agent refuses the Connector, or the address is one that no tenant may reach.
pub const UNAUTHORISED: &str = "Unauthorised";
/// 503: the tunnel has as many requests or connections as it may.
pub const TOO_MANY: &str = "TooMany";
/// 409: a proof was asked for a generation that is not served here.
pub const OTHER_GENERATION: &str = "OtherGeneration";
/// 400: the request makes no sense.
pub const BAD_REQUEST: &str = "BadRequest";
/// 409: a proof was asked of a life of the agent that is over, or of another Connector.
pub const OTHER_SESSION: &str = "OtherSession";
/// 408: the client stopped sending its body.
pub const CLIENT_TIMEOUT: &str = "ClientTimeout";
/// 499, in logs and metrics only: the client went away.
pub const CLIENT_GONE: &str = "ClientGone";

/// Every word.
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
