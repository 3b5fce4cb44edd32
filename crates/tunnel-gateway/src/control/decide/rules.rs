//! HTTPRoutes: which Gateways each is attached to, and its rules in the form in which requests meet
//! them. A route is taken whole or not at all.

use std::collections::{BTreeMap, BTreeSet};

use aplomb::{ObjectKey, View};
use aplomb_api::tunnel::{
    PathMatchType, PathModifier, PathModifierType, RequestRedirect, RouteFilter, RouteFilterType, RouteMatch,
    annotations,
};
use ipnet::IpNet;

use super::admission::{AcceptedGateway, GatewayOwner, controlling_proxy};
use super::backend::BackendResolver;
use super::hostname_claims::{normalize, sibling_key};
use super::omissions::Omissions;
use crate::control::inputs::TableInputs;
use crate::control::views::{ObjectMetaView, ObjectReference, RouteRule, RouteView};
use crate::routing::{self, Protocols, RouteAction, TableRoute};

#[derive(Debug)]
pub(super) struct CompiledRoute<'a> {
    pub(super) route: &'a RouteView,
    /// The Gateways it is attached to, by their index, and how.
    pub(super) parents: Vec<(usize, &'a ObjectReference)>,
    /// The generation of what it was made from.
    pub(super) generation: i64,
    pub(super) matches: Vec<RankedRoute>,
}

/// The routes that can be served, oldest first.
pub(super) fn compile_routes<'a>(
    world: &'a TableInputs,
    admitted: &[AcceptedGateway<'_>],
    notes: &mut Omissions,
) -> Vec<CompiledRoute<'a>> {
    let gateways: BTreeMap<ObjectKey, usize> = admitted
        .iter()
        .enumerate()
        .map(|(number, it)| (it.gateway.meta().key(), number))
        .collect();
    let backends = BackendResolver::new(world);
    let mut routes: Vec<&RouteView> = world.routes.iter().map(|route| &**route).collect();
    routes.sort_by_cached_key(|route| ObjectAge::new(&route.metadata));
    let mut compiled = Vec::new();
    for route in routes {
        let parents = attached_gateways(route, &gateways, admitted);
        if parents.is_empty() || route.meta().deleting {
            continue;
        }
        let gateway = &admitted[parents[0].0];
        let whose = gateway.owner;
        let opened = world.class_networks.get(gateway.class_name());
        match compile_route(route, &backends, opened.map_or(&[], Vec::as_slice)) {
            Ok(matches) => compiled.push(CompiledRoute {
                route,
                parents,
                generation: route_generation(route, whose),
                matches,
            }),
            Err(reason) => notes.quarantine(&route.metadata, whose, &reason),
        }
    }
    compiled
}

/// The Gateways that a route is attached to. Those of an HTTPProxy take its own HTTPRoute and no other.
fn attached_gateways<'a>(
    route: &'a RouteView,
    gateways: &BTreeMap<ObjectKey, usize>,
    admitted: &[AcceptedGateway<'_>],
) -> Vec<(usize, &'a ObjectReference)> {
    let meta = route.meta();
    let namespace = route.metadata.namespace();
    let owned_by = |uid: &str| controlling_proxy(meta.owners).is_some_and(|owner| owner.uid == uid);
    let refs = route.spec.parent_refs.iter();
    refs.filter_map(|parent| {
        let kind = parent.kind.as_deref().unwrap_or("Gateway");
        let group = parent.group.as_deref();
        let ours = kind == "Gateway" && group.is_none_or(|it| it == "gateway.networking.k8s.io");
        let same = parent.namespace.as_deref().is_none_or(|it| it == namespace);
        let number = *gateways.get(&sibling_key(namespace, &parent.name))?;
        let AcceptedGateway { owner: whose, uid, .. } = &admitted[number];
        let its_own = *whose == GatewayOwner::Unowned || (owned_by(uid) && *parent.name == *meta.name);
        (ours && same && its_own).then_some((number, parent))
    })
    .collect()
}

fn route_generation(route: &RouteView, whose: GatewayOwner) -> i64 {
    let said = route.metadata.annotations.get(annotations::GENERATION);
    match whose {
        GatewayOwner::Proxy => said.and_then(|said| said.parse().ok()).unwrap_or_default(),
        GatewayOwner::Unowned => route.metadata.generation.unwrap_or_default(),
    }
}

fn compile_route(
    route: &RouteView,
    backends: &BackendResolver<'_>,
    opened: &[IpNet],
) -> Result<Vec<RankedRoute>, String> {
    let age = ObjectAge::new(&route.metadata);
    let mut matches = Vec::new();
    for (number, rule) in route.spec.rules.iter().enumerate() {
        let said = |reason: String| format!("rule {number}: {reason}");
        let rule = rule.0.as_ref().map_err(|reason| said(reason.clone()))?;
        let target = |to: &ObjectReference| backends.resolve(to, route.metadata.namespace(), opened);
        let (action, filters) = compile_rule(rule, target).map_err(said)?;
        for (which, matcher) in rule.matchers.0.iter().enumerate() {
            matches.push(RankedRoute {
                rank: MatchPrecedence::new(&age, number, which),
                route: TableRoute {
                    rule: number,
                    protocols: Protocols::default(),
                    matches: matcher.clone(),
                    filters: filters.clone(),
                    action: action.clone(),
                    timeout: rule.timeouts.request.map(|it| it.0).filter(|it| !it.is_zero()),
                },
            });
        }
    }
    Ok(matches)
}

type CompiledRule = (RouteAction, Vec<aplomb_api::tunnel::RouteFilter>);

/// What becomes of the requests of a rule, and what is done to them first.
fn compile_rule(
    rule: &RouteRule,
    target: impl Fn(&ObjectReference) -> Result<RouteAction, String>,
) -> Result<CompiledRule, String> {
    let counted = |weight: Option<i32>| weight != Some(0);
    let mut refs = rule.backend_refs.iter().filter(|it| counted(it.weight));
    let (backend, more) = (refs.next(), refs.next());
    if more.is_some() {
        return Err("more than one backend is not supported".to_owned());
    }
    let own = backend.map(|it| it.filters.clone()).unwrap_or_default();
    let filters: Vec<_> = rule.filters.iter().cloned().chain(own).collect();
    check_filters(&filters, &rule.matches)?;
    let redirects = filters.iter().any(|it| it.kind == RouteFilterType::RequestRedirect);
    let action = match backend {
        Some(_) if redirects => return Err("the rule has both a redirect and a backend".to_owned()),
        Some(backend) => target(&backend.to)?,
        None if redirects => RouteAction::Redirect,
        None => return Err("the rule has neither a backend nor a redirect".to_owned()),
    };
    Ok((action, filters))
}

/// What is wrong with the filters of a rule with these matches.
pub(super) fn check_filters(filters: &[RouteFilter], matches: &[RouteMatch]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for filter in filters {
        let word = as_str(filter.kind);
        if !seen.insert(word) {
            return Err(format!("the rule has more than one filter of type {word}"));
        }
        let possible = check_complete(filter).and_then(|()| crate::routing::filters::check_filter(filter));
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
    match normalize(name).filter(|name| !name.starts_with('*')) {
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

/// The older object wins, then the first by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ObjectAge {
    /// RFC 3339 in UTC and whole seconds, as the API server writes it, so that text compares as time does.
    created: Box<str>,
    namespace: Box<str>,
    name: Box<str>,
}

impl ObjectAge {
    pub(super) fn new(meta: &ObjectMetaView) -> Self {
        Self {
            created: meta.creation_timestamp.clone().unwrap_or_default(),
            namespace: meta.namespace().into(),
            name: meta.name.clone(),
        }
    }
}

/// Where a match stands among those of its host that are equal otherwise: the least is tried first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MatchPrecedence {
    age: ObjectAge,
    rule_index: usize,
    match_index: usize,
}

impl MatchPrecedence {
    pub(super) fn new(age: &ObjectAge, rule: usize, number: usize) -> Self {
        Self {
            age: age.clone(),
            rule_index: rule,
            match_index: number,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct RankedRoute {
    pub(super) rank: MatchPrecedence,
    pub(super) route: TableRoute,
}

/// The routes in the order in which they are tried, each for its protocols.
pub(super) fn sort_routes(routes: &[(&RankedRoute, Protocols)]) -> Vec<TableRoute> {
    let mut ranked = routes.to_vec();
    ranked.sort_by(|(one, _), (other, _)| one.rank.cmp(&other.rank));
    let routes = ranked.into_iter().map(|(ranked, protocols)| TableRoute {
        protocols,
        ..ranked.route.clone()
    });
    let mut routes: Vec<TableRoute> = routes.collect();
    routing::sort_routes(&mut routes);
    routes
}
