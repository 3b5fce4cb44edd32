//! Applies the filters of a rule to requests and responses, and builds redirects. Pure. [`check_filter`] rejects
//! invalid filters when the table is built, so that no request fails later.

use aplomb_api::tunnel::{HeaderModifier, PathModifier, PathModifierType, RequestRedirect, RouteFilter};
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderName, HeaderValue, TRANSFER_ENCODING, UPGRADE};
use http::uri::{PathAndQuery, Scheme, Uri};
use http::{HeaderMap, StatusCode};

use crate::routing::after_prefix;

/// Headers that frame a message. A filter that changed them would allow request smuggling.
const FRAMING_HEADERS: [HeaderName; 4] = [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING, UPGRADE];

/// Whether a filter is valid.
pub(crate) fn check_filter(filter: &RouteFilter) -> Result<(), String> {
    let modifiers = [&filter.request_header_modifier, &filter.response_header_modifier];
    modifiers.into_iter().flatten().try_for_each(check_modifier)?;
    if let Some(redirect) = &filter.request_redirect {
        check_redirect(redirect)?;
    }
    let rewrite = filter.url_rewrite.as_ref();
    check_path(rewrite.and_then(|it| it.path.as_ref()))
}

fn check_modifier(modifier: &HeaderModifier) -> Result<(), String> {
    for header in modifier.set.iter().chain(&modifier.add) {
        HeaderValue::from_str(&header.value)
            .map_err(|_| format!("the value of header {:?} is not allowed", header.name))?;
    }
    let names = modifier.set.iter().chain(&modifier.add).map(|it| &it.name);
    for name in names.chain(&modifier.remove) {
        let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("{name:?} is not a header name"))?;
        if FRAMING_HEADERS.contains(&parsed) {
            return Err(format!("header {name:?} is reserved for the connection"));
        }
    }
    Ok(())
}

fn check_redirect(redirect: &RequestRedirect) -> Result<(), String> {
    let code = redirect.status_code.unwrap_or(302);
    if ![301, 302, 303, 307, 308].contains(&code) {
        return Err(format!("{code} is not a redirect status"));
    }
    if let Some(port) = redirect.port
        && u16::try_from(port).map_or(true, |it| it == 0)
    {
        return Err(format!("{port} is not a port"));
    }
    check_path(redirect.path.as_ref())
}

fn check_path(path: Option<&PathModifier>) -> Result<(), String> {
    let Some(path) = path else { return Ok(()) };
    let value = replacement(path);
    let parsed = value.is_empty() || value.parse::<PathAndQuery>().is_ok();
    match parsed && (value.is_empty() || value.starts_with('/')) {
        true => Ok(()),
        false => Err(format!("{value:?} is not a path")),
    }
}

fn replacement(path: &PathModifier) -> &str {
    let value = match path.kind {
        PathModifierType::ReplaceFullPath => &path.replace_full_path,
        PathModifierType::ReplacePrefixMatch => &path.replace_prefix_match,
    };
    value.as_deref().unwrap_or_default()
}

/// Changes the headers of a request.
pub(crate) fn apply_to_request(filters: &[RouteFilter], headers: &mut HeaderMap) {
    let modifiers = filters.iter().filter_map(|it| it.request_header_modifier.as_ref());
    modifiers.for_each(|modifier| modify_headers(modifier, headers));
}

/// Changes the headers of a response.
pub(crate) fn apply_to_response(filters: &[RouteFilter], headers: &mut HeaderMap) {
    let modifiers = filters.iter().filter_map(|it| it.response_header_modifier.as_ref());
    modifiers.for_each(|modifier| modify_headers(modifier, headers));
}

fn modify_headers(modifier: &HeaderModifier, headers: &mut HeaderMap) {
    let parse = |name: &str, value: &str| {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        Some((name, HeaderValue::from_str(value).ok()?))
    };
    for header in &modifier.set {
        if let Some((name, value)) = parse(&header.name, &header.value) {
            headers.insert(name, value);
        }
    }
    for header in &modifier.add {
        if let Some((name, value)) = parse(&header.name, &header.value) {
            headers.append(name, value);
        }
    }
    for name in &modifier.remove {
        headers.remove(name.as_str());
    }
}

/// The Host header for the origin, if a filter replaces it.
pub(crate) fn rewritten_host(filters: &[RouteFilter]) -> Option<HeaderValue> {
    let mut rewrites = filters.iter().filter_map(|it| it.url_rewrite.as_ref());
    let name = rewrites.find_map(|it| it.hostname.as_deref())?;
    HeaderValue::from_str(name).ok()
}

/// The path for the origin; `prefix` is the part the route matched.
pub(crate) fn rewritten_path(filters: &[RouteFilter], uri: &Uri, prefix: &str) -> PathAndQuery {
    let mut rewrites = filters.iter().filter_map(|it| it.url_rewrite.as_ref());
    let change = rewrites.find_map(|it| it.path.as_ref());
    let kept = || {
        let path = uri.path_and_query().cloned();
        path.unwrap_or_else(|| PathAndQuery::from_static("/"))
    };
    let Some(change) = change else { return kept() };
    let path = apply_path_modifier(change, uri.path(), prefix);
    let text = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path,
    };
    text.parse().unwrap_or_else(|_| kept())
}

/// The path after the change. Slashes between the parts are neither doubled nor lost.
fn apply_path_modifier(change: &PathModifier, path: &str, prefix: &str) -> String {
    let new = replacement(change);
    let text = match change.kind {
        PathModifierType::ReplaceFullPath => new.to_owned(),
        PathModifierType::ReplacePrefixMatch => {
            let rest = after_prefix(path, prefix).unwrap_or(path);
            format!("{}{rest}", new.trim_end_matches('/'))
        }
    };
    match text.starts_with('/') {
        true => text,
        false => format!("/{text}"),
    }
}

/// The status and location of a redirect, if a filter sets one.
pub(crate) fn redirect_location(
    filters: &[RouteFilter],
    (host, tls): (&str, bool),
    uri: &Uri,
    prefix: &str,
) -> Option<(StatusCode, HeaderValue)> {
    let redirect = filters.iter().find_map(|it| it.request_redirect.as_ref())?;
    let own = if tls { Scheme::HTTPS } else { Scheme::HTTP };
    let scheme = redirect.scheme.as_deref().unwrap_or(own.as_str());
    let host = redirect.hostname.as_deref().unwrap_or(host);
    let port = match redirect.port {
        // The default port of the scheme is omitted.
        Some(80) if scheme == "http" => String::new(),
        Some(443) if scheme == "https" => String::new(),
        Some(port) => format!(":{port}"),
        // The default of the scheme, which is also the listener's.
        None => String::new(),
    };
    let path = match &redirect.path {
        Some(change) => apply_path_modifier(change, uri.path(), prefix),
        None => uri.path().to_owned(),
    };
    let query = uri.query().map(|it| format!("?{it}")).unwrap_or_default();
    let location = HeaderValue::try_from(format!("{scheme}://{host}{port}{path}{query}")).ok()?;
    let code = u16::try_from(redirect.status_code.unwrap_or(302)).ok()?;
    Some((StatusCode::from_u16(code).ok()?, location))
}

#[cfg(test)]
mod tests;
