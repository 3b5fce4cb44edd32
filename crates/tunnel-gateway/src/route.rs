//! Selects the host and the route of a request by the Gateway API's precedence. Pure: requests are not
//! modified.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use aplomb_api::tunnel::{HttpMethod, PathMatch, PathMatchType, RouteMatch, ValueMatchType, is_canonical};
use http::request::Parts;
use http::{HeaderMap, HeaderName};

use crate::path::{AlternativePath, decode_reserved};
use crate::table::{CompiledMatch, RouteAction, RoutingTable, TableRoute, VirtualHost};

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

#[cfg(test)]
#[path = "route_tests.rs"]
mod tests;
