//! The Gateway API's order of precedence between objects. That between matches is [`route::order`]'s.

use crate::route;
use crate::table::{Protocols, TableRoute};
use crate::views::ObjectMetaView;

/// The older object wins, then the first by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ObjectAge {
    /// RFC 3339 in UTC and whole seconds, as the API server writes it, so that text compares as time
    /// does.
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

/// A route with its rank.
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
    route::sort_routes(&mut routes);
    routes
}
