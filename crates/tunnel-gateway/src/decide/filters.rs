//! Whether the filters of a rule fit together and with its matches, so that no request finds out that they
//! do not. Whether one filter by itself can be carried out is what [`crate::filter`] knows.

use std::collections::BTreeSet;

use aplomb_api::tunnel::{
    PathMatchType, PathModifier, PathModifierType, RequestRedirect, RouteFilter, RouteFilterType, RouteMatch,
};

use super::hostname;

/// What is wrong with the filters of a rule with these matches.
pub(super) fn check_filters(filters: &[RouteFilter], matches: &[RouteMatch]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for filter in filters {
        let word = as_str(filter.kind);
        if !seen.insert(word) {
            return Err(format!("the rule has more than one filter of type {word}"));
        }
        let possible = check_complete(filter).and_then(|()| crate::filter::check_filter(filter));
        possible.map_err(|reason| format!("filter {word}: {reason}"))?;
        let modifiers = [
            filter.url_rewrite.as_ref().and_then(|it| it.path.as_ref()),
            filter.request_redirect.as_ref().and_then(|it| it.path.as_ref()),
        ];
        for modifier in modifiers.into_iter().flatten() {
            check_path(modifier, matches).map_err(|reason| format!("filter {word}: {reason}"))?;
        }
    }
    if seen.contains("RequestRedirect") && seen.contains("URLRewrite") {
        return Err("the rule has both RequestRedirect and URLRewrite".to_owned());
    }
    Ok(())
}

fn as_str(kind: RouteFilterType) -> &'static str {
    match kind {
        RouteFilterType::RequestHeaderModifier => "RequestHeaderModifier",
        RouteFilterType::ResponseHeaderModifier => "ResponseHeaderModifier",
        RouteFilterType::RequestRedirect => "RequestRedirect",
        RouteFilterType::UrlRewrite => "URLRewrite",
    }
}

fn check_complete(filter: &RouteFilter) -> Result<(), String> {
    let missing = || "the field of that name is missing".to_owned();
    match filter.kind {
        RouteFilterType::RequestHeaderModifier => {
            let modifier = filter.request_header_modifier.as_ref();
            modifier.map(drop).ok_or_else(missing)
        }
        RouteFilterType::ResponseHeaderModifier => {
            let modifier = filter.response_header_modifier.as_ref();
            modifier.map(drop).ok_or_else(missing)
        }
        RouteFilterType::RequestRedirect => check_redirect(filter.request_redirect.as_ref().ok_or_else(missing)?),
        RouteFilterType::UrlRewrite => {
            let rewrite = filter.url_rewrite.as_ref().ok_or_else(missing)?;
            rewrite.hostname.as_deref().map_or(Ok(()), check_host)
        }
    }
}

fn check_redirect(redirect: &RequestRedirect) -> Result<(), String> {
    if let Some(scheme) = redirect.scheme.as_deref().filter(|it| !["http", "https"].contains(it)) {
        return Err(format!("{scheme:?} is neither http nor https"));
    }
    redirect.hostname.as_deref().map_or(Ok(()), check_host)
}

fn check_host(name: &str) -> Result<(), String> {
    match hostname::normalize(name).filter(|name| !name.starts_with('*')) {
        Some(_) => Ok(()),
        None => Err(format!("{name:?} is not a hostname")),
    }
}

fn check_path(modifier: &PathModifier, matches: &[RouteMatch]) -> Result<(), String> {
    let prefix = |it: &RouteMatch| {
        let path = it.path.as_ref();
        path.is_none_or(|path| path.kind == PathMatchType::PathPrefix)
    };
    match modifier.kind {
        PathModifierType::ReplaceFullPath if modifier.replace_full_path.is_none() => {
            Err("replaceFullPath is missing".to_owned())
        }
        PathModifierType::ReplacePrefixMatch if modifier.replace_prefix_match.is_none() => {
            Err("replacePrefixMatch is missing".to_owned())
        }
        PathModifierType::ReplacePrefixMatch if !matches.iter().all(prefix) => {
            Err("replacePrefixMatch needs matches of type PathPrefix".to_owned())
        }
        _ => Ok(()),
    }
}
