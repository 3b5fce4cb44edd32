//! The routing table and how a request is matched: immutable, built as a whole from watched objects, and swapped
//! atomically. Hosts and routes are selected by the Gateway API's precedence. It reads no cache or socket.

pub(crate) mod filters;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use aplomb_api::tunnel::{HttpMethod, PathMatch, PathMatchType, RouteFilter, RouteMatch, ValueMatchType, is_canonical};
use aplomb_tunnel_protocol::ConnectorId;
use http::request::Parts;
use http::{HeaderMap, HeaderName};
use ipnet::IpNet;
use regex::{Regex, RegexBuilder};
use rustls::sign::CertifiedKey;

use crate::path::{AlternativePath, decode_reserved};

/// Everything that serving a request needs.
#[derive(Clone, Debug, Default)]
pub struct RoutingTable {
    /// By exact hostname, in lower case.
    pub hosts: BTreeMap<String, Arc<VirtualHost>>,
    /// By the suffix after `*.`. Exact hostnames take precedence, then the longest suffix.
    pub wildcards: BTreeMap<String, Arc<VirtualHost>>,
    /// Claimed hostnames that are not served now and that wildcards must not serve.
    pub reserved: BTreeSet<String>,
    /// By exact hostname or `*.` suffix: the certificate for TLS clients.
    pub certificates: BTreeMap<String, Arc<CertifiedKey>>,
}

/// The protocols of public listeners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protocols {
    /// Without TLS.
    pub http: bool,
    /// With TLS.
    pub https: bool,
}

impl Protocols {
    /// Both of them.
    pub const ALL: Self = Self {
        http: true,
        https: true,
    };

    /// Whether connections with TLS, or without it, are included.
    #[must_use]
    pub const fn includes(self, tls: bool) -> bool {
        if tls { self.https } else { self.http }
    }

    /// The union of both.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self {
            http: self.http || other.http,
            https: self.https || other.https,
        }
    }
}

/// The routes of one hostname.
#[derive(Clone, Debug)]
pub struct VirtualHost {
    pub tunnel: Arc<TunnelInfo>,
    pub protocols: Protocols,
    /// One for each match of each rule, in the Gateway API's order of precedence. The first match serves the request.
    pub routes: Vec<TableRoute>,
}

/// The identity of a tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelInfo {
    /// The namespace of its HTTPProxy.
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// The generation of the HTTPProxy that its HTTPRoute was built from.
    pub generation: i64,
    /// Digest of this configuration, for `X-Aplomb-Revision`.
    pub revision: String,
}

impl TunnelInfo {
    /// Its namespace/name, for display.
    #[must_use]
    pub fn display_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// A match, and the action for requests that it selects.
#[derive(Clone, Debug)]
pub struct TableRoute {
    /// The index of its rule in the HTTPRoute.
    pub rule: usize,
    /// The protocols of the listeners that it is attached to.
    pub protocols: Protocols,
    /// The match. Regular expressions are compiled when the table is built.
    pub matches: CompiledMatch,
    /// The filters of the rule, then of the backend.
    pub filters: Vec<RouteFilter>,
    pub action: RouteAction,
    /// Timeout for the start of the response.
    pub timeout: Option<Duration>,
}

impl TableRoute {
    /// The path prefix that it matches.
    pub(crate) fn path_prefix(&self) -> &str {
        let path = self.matches.wanted.path.as_ref();
        path.filter(|it| it.kind == PathMatchType::PathPrefix)
            .map_or("/", |it| &it.value)
    }
}

/// A match with its expressions compiled.
#[derive(Clone, Debug)]
pub struct CompiledMatch {
    pub wanted: RouteMatch,
    /// The path's expression, anchored at both ends.
    pub path: Option<regex::Regex>,
    /// The expressions of headers, by their index.
    pub headers: BTreeMap<usize, regex::Regex>,
    /// The expressions of query parameters, by their index.
    pub query: BTreeMap<usize, regex::Regex>,
}

#[derive(Clone, Debug)]
pub enum RouteAction {
    Forward(Arc<OriginTarget>),
    /// Respond with the redirect of a filter.
    Redirect,
    /// No usable backend: respond with a status code and a reason.
    NoBackend {
        status: u16,
        /// The reason, one of [`crate::reason`].
        reason: &'static str,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OriginTarget {
    pub target: OriginAddress,
    /// Its host:port, as the endpoint specifies it.
    pub authority: String,
    /// The server name for TLS to the origin.
    pub tls: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OriginAddress {
    /// Through an agent, which dials [`OriginTarget::authority`].
    Connector(Arc<AgentTarget>),
    /// Dialed by the gateway itself.
    Addresses(Addresses),
}

/// Addresses that the gateway dials.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Addresses {
    /// Names or addresses with ports, checked after resolution.
    pub names: Vec<String>,
    /// The networks that the class permits. Connections are not shared between routes with different networks.
    pub open_networks: Vec<IpNet>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AgentTarget {
    /// The namespace of the Connector.
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// The iroh endpoint id, in hex.
    pub id: String,
    /// Id of the agent session.
    pub session: String,
    /// The relay through which it is reached.
    pub relay: Option<String>,
    /// Addresses at which it is reached directly.
    pub addresses: Vec<SocketAddr>,
    /// It shut down gracefully: it is not dialed until its session changes.
    pub released: bool,
}

impl AgentTarget {
    /// The identity of the Connector in messages to its agent.
    #[must_use]
    pub fn connector_id(&self) -> ConnectorId {
        ConnectorId {
            namespace: self.namespace.clone(),
            uid: self.uid.clone(),
        }
    }
}

/// Sorts routes into matching order. Routes with equal precedence keep their order: the table lists the older
/// HTTPRoute and the earlier rule first.
pub fn sort_routes(routes: &mut [TableRoute]) {
    routes.sort_by_cached_key(|route| {
        let wanted = &route.matches.wanted;
        (
            path_precedence(wanted.path.as_ref()),
            wanted.method.is_none(),
            Reverse(wanted.headers.len()),
            Reverse(wanted.query_params.len()),
        )
    });
}

/// Exact paths, then prefixes from the longest, then expressions. The prefix `/`, which is also the default,
/// comes after expressions, because it matches every path and would leave nothing for them.
fn path_precedence(path: Option<&PathMatch>) -> (u8, Reverse<usize>) {
    let Some(path) = path else {
        return (3, Reverse(0));
    };
    match path.kind {
        PathMatchType::Exact => (0, Reverse(0)),
        PathMatchType::PathPrefix => match path.value.trim_end_matches('/').len() {
            0 => (3, Reverse(0)),
            long => (1, Reverse(long)),
        },
        PathMatchType::RegularExpression => (2, Reverse(path.value.len())),
    }
}

/// The entry of a hostname (lower case, without a port): the exact one, else the longest wildcard. A wildcard
/// never serves a hostname of an HTTPProxy, even one that is not served now. Only listeners of the
/// connection's protocol serve it; a more specific one of the other protocol still owns the hostname.
#[must_use]
pub fn find_host<'t>(table: &'t RoutingTable, hostname: &str, tls: bool) -> Option<&'t Arc<VirtualHost>> {
    let domain = hostname.split_once('.').map_or("", |(_, domain)| domain);
    let owned = table.reserved.contains(hostname) || is_canonical(hostname, domain);
    let wildcards = parent_domains(hostname).filter_map(|parent| table.wildcards.get(parent));
    let wildcards = wildcards.filter(|_| !owned);
    let mut hosts = table.hosts.get(hostname).into_iter().chain(wildcards);
    let first = hosts.next()?;
    let same = hosts.filter(|host| host.tunnel.uid == first.tunnel.uid);
    let mut hosts = std::iter::once(first).chain(same);
    hosts.find(|host| host.protocols.includes(tls))
}

/// The suffix after each dot of a hostname, longest first.
fn parent_domains(hostname: &str) -> impl Iterator<Item = &str> {
    let dots = hostname.match_indices('.');
    dots.map(|(at, _)| &hostname[at + 1..])
}

/// The entry of a name, or of its longest suffix in `wildcard`.
pub(crate) fn find_entry<'t, T>(
    exact: &'t BTreeMap<String, T>,
    name: &str,
    wildcard: impl FnMut(&str) -> Option<&'t T>,
) -> Option<&'t T> {
    if let Some(found) = exact.get(name) {
        return Some(found);
    }
    parent_domains(name).find_map(wildcard)
}

/// The first route of the connection's protocol that matches.
#[must_use]
pub fn match_route<'h>(host: &'h VirtualHost, request: &Parts, tls: bool) -> Option<&'h TableRoute> {
    let routes = host.routes.iter().filter(|it| it.protocols.includes(tls));
    first_match(routes, request, request.uri.path(), path_matches)
}

/// Whether a request selects `route` in every interpretation of its path, except for encodings that the rule
/// itself spells out.
pub(crate) fn all_readings_match(
    (host, tls): (&VirtualHost, bool),
    request: &Parts,
    route: &TableRoute,
    readings: &[AlternativePath],
) -> bool {
    let path = route.matches.wanted.path.as_ref();
    let says = |text: &str| path.is_some_and(|it| it.value.contains(text));
    let expression = path.is_some_and(|it| it.kind == PathMatchType::RegularExpression);
    if says("%25") || (expression && says("%")) {
        return true;
    }
    let spelled = says(";") || says("%3B");
    let mut readings = readings.iter().filter(|it| !(it.cut && spelled));
    readings.all(|reading| {
        let routes = host.routes.iter().filter(|it| it.protocols.includes(tls));
        let other = first_match(routes, request, &reading.path, decoded_path_matches);
        other.is_some_and(|other| is_same_rule(other, route))
    })
}

/// Whether two matches belong to one rule and therefore to one origin.
fn is_same_rule(one: &TableRoute, other: &TableRoute) -> bool {
    match (&one.action, &other.action) {
        (RouteAction::Forward(one), RouteAction::Forward(other)) => Arc::ptr_eq(one, other),
        _ => std::ptr::eq(one, other),
    }
}

type PathMatchFn = fn(&CompiledMatch, Option<&PathMatch>, &str) -> bool;

fn first_match<'h>(
    mut routes: impl Iterator<Item = &'h TableRoute>,
    request: &Parts,
    path: &str,
    fits: PathMatchFn,
) -> Option<&'h TableRoute> {
    routes.find(|route| matches_request(&route.matches, request, path, fits))
}

fn matches_request(matcher: &CompiledMatch, request: &Parts, asked: &str, fits: PathMatchFn) -> bool {
    let RouteMatch {
        path,
        headers,
        query_params,
        method,
    } = &matcher.wanted;
    method.is_none_or(|wanted| method_name(wanted) == request.method.as_str())
        && fits(matcher, path.as_ref(), asked)
        && (headers.is_empty() || headers_match(matcher, &request.headers))
        && (query_params.is_empty() || query_matches(matcher, request.uri.query().unwrap_or_default()))
}

fn path_matches(matcher: &CompiledMatch, wanted: Option<&PathMatch>, path: &str) -> bool {
    let Some(wanted) = wanted else { return true };
    match wanted.kind {
        PathMatchType::Exact => path == wanted.value,
        PathMatchType::PathPrefix => after_prefix(path, &wanted.value).is_some(),
        PathMatchType::RegularExpression => matcher.path.as_ref().is_some_and(|it| it.is_match(path)),
    }
}

/// The same for a path that was decoded further, with the rule's path decoded likewise.
fn decoded_path_matches(matcher: &CompiledMatch, wanted: Option<&PathMatch>, path: &str) -> bool {
    let escapes = |it: &&PathMatch| it.value.contains('%') && matcher.path.is_none();
    let Some(wanted) = wanted.filter(escapes) else {
        return path_matches(matcher, wanted, path);
    };
    let (kind, value) = (wanted.kind, decode_reserved(&wanted.value));
    path_matches(matcher, Some(&PathMatch { kind, value }), path)
}

/// The rest after a prefix of whole segments: empty, or starting with a slash.
pub(crate) fn after_prefix<'p>(path: &'p str, prefix: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(prefix.trim_end_matches('/'))?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// Of several matches with the same name only the first counts, as the Gateway API defines.
fn headers_match(matcher: &CompiledMatch, headers: &HeaderMap) -> bool {
    let wanted = &matcher.wanted.headers;
    wanted.iter().enumerate().all(|(index, each)| {
        let same = |other: &str| other.eq_ignore_ascii_case(&each.name);
        if wanted[..index].iter().any(|earlier| same(&earlier.name)) {
            return true;
        }
        let Some(value) = joined_header(headers, &each.name) else {
            return false;
        };
        let expression = matcher.headers.get(&index);
        value_matches(each.kind, &each.value, expression, &value)
    })
}

fn query_matches(matcher: &CompiledMatch, query: &str) -> bool {
    let wanted = &matcher.wanted.query_params;
    wanted.iter().enumerate().all(|(index, each)| {
        if wanted[..index].iter().any(|it| it.name == each.name) {
            return true;
        }
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        let Some((_, value)) = pairs.find(|(name, _)| *name == each.name) else {
            return false;
        };
        let expression = matcher.query.get(&index);
        value_matches(each.kind, &each.value, expression, &value)
    })
}

fn value_matches(kind: ValueMatchType, wanted: &str, expression: Option<&regex::Regex>, value: &str) -> bool {
    match kind {
        ValueMatchType::Exact => wanted == value,
        ValueMatchType::RegularExpression => expression.is_some_and(|it| it.is_match(value)),
    }
}

/// The value of a header; several values are joined into one line.
fn joined_header<'r>(headers: &'r HeaderMap, name: &str) -> Option<Cow<'r, str>> {
    let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
    let mut values = headers.get_all(name).iter();
    let first = String::from_utf8_lossy(values.next()?.as_bytes());
    Some(values.fold(first, |mut all, value| {
        let line = all.to_mut();
        line.push(',');
        line.push_str(&String::from_utf8_lossy(value.as_bytes()));
        all
    }))
}

fn method_name(method: HttpMethod) -> &'static str {
    match method {
        HttpMethod::Get => "GET",
        HttpMethod::Head => "HEAD",
        HttpMethod::Post => "POST",
        HttpMethod::Put => "PUT",
        HttpMethod::Delete => "DELETE",
        HttpMethod::Connect => "CONNECT",
        HttpMethod::Options => "OPTIONS",
        HttpMethod::Trace => "TRACE",
        HttpMethod::Patch => "PATCH",
    }
}

/// How much memory one expression may take when compiled: a tenant writes it, all pay for it.
const MAX_REGEX_BYTES: usize = 256 * 1024;

pub(crate) fn compile_match(wanted: &RouteMatch) -> Result<CompiledMatch, String> {
    let mut wanted = wanted.clone();
    let path = match &mut wanted.path {
        Some(path) if path.kind == PathMatchType::RegularExpression => Some(anchored_regex(&path.value)?),
        Some(path) => {
            path.value = normalize_path(&path.value)?;
            None
        }
        None => None,
    };
    for header in &wanted.headers {
        let name = HeaderName::from_bytes(header.name.as_bytes());
        name.map_err(|_| format!("{:?} is not a header name", header.name))?;
    }
    let headers = wanted.headers.iter().map(|it| (it.kind, &it.value));
    let query = wanted.query_params.iter().map(|it| (it.kind, &it.value));
    Ok(CompiledMatch {
        path,
        headers: compile_expressions(headers)?,
        query: compile_expressions(query)?,
        wanted,
    })
}

/// A path in the form that requests have when they are compared with it.
fn normalize_path(value: &str) -> Result<String, String> {
    let wrong = |why| format!("the path {value:?} {why}");
    if value.is_empty() {
        return Err(wrong("is empty"));
    }
    // Resolved, it would serve more than a reader of the rule expects.
    let segment = |it: &str| it.replace("%2e", ".").replace("%2E", ".");
    if value.split('/').any(|it| matches!(&*segment(it), "." | "..")) {
        return Err(wrong("has a dot segment"));
    }
    let normal = crate::path::normalize(value).map_err(wrong)?;
    Ok(normal.into_owned())
}

fn compile_expressions<'a>(
    values: impl Iterator<Item = (ValueMatchType, &'a String)>,
) -> Result<BTreeMap<usize, Regex>, String> {
    let all = values.enumerate();
    all.filter(|(_, (kind, _))| *kind == ValueMatchType::RegularExpression)
        .map(|(number, (_, value))| Ok((number, anchored_regex(value)?)))
        .collect()
}

/// An expression over a whole value.
fn anchored_regex(expression: &str) -> Result<Regex, String> {
    RegexBuilder::new(&format!("^(?:{expression})$"))
        .size_limit(MAX_REGEX_BYTES)
        .dfa_size_limit(MAX_REGEX_BYTES)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => {
                format!("the regular expression {expression:?} is too large")
            }
            _ => format!("{expression:?} is not a regular expression"),
        })
}
