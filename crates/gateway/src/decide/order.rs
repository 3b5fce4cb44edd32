//! The Gateway API's order of precedence, between objects and between matches.

use std::cmp::Reverse;

use aplomb_api::tunnel::{PathMatchType, RouteMatch};

use crate::table::Route;
use crate::views::Metadata;

/// The older object wins, then the first by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Age {
    /// RFC 3339 in UTC and whole seconds, as the API server writes it, so that text compares as time
    /// does.
    created: Box<str>,
    namespace: Box<str>,
    name: Box<str>,
}

impl Age {
    pub(super) fn of(meta: &Metadata) -> Self {
        Self {
            created: meta.creation_timestamp.clone().unwrap_or_default(),
            namespace: meta.namespace().into(),
            name: meta.name.clone(),
        }
    }
}

/// Where a match stands among all of its host: the least is tried first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    path: u8,
    longest: Reverse<usize>,
    any_method: bool,
    headers: Reverse<usize>,
    query: Reverse<usize>,
    age: Age,
    rule: usize,
    number: usize,
}

impl Rank {
    pub(super) fn of(wanted: &RouteMatch, age: &Age, rule: usize, number: usize) -> Self {
        let path = wanted.path.as_ref();
        let kind = path.map(|path| path.kind).unwrap_or_default();
        Self {
            path: match kind {
                PathMatchType::Exact => 0,
                PathMatchType::RegularExpression => 1,
                PathMatchType::PathPrefix => 2,
            },
            longest: Reverse(path.map_or(1, |path| path.value.len())),
            any_method: wanted.method.is_none(),
            headers: Reverse(wanted.headers.len()),
            query: Reverse(wanted.query_params.len()),
            age: age.clone(),
            rule,
            number,
        }
    }
}

/// A route with its rank.
#[derive(Clone, Debug)]
pub(super) struct Ranked {
    pub(super) rank: Rank,
    pub(super) route: Route,
}

/// The routes in the order in which they are tried.
pub(super) fn sorted(routes: &[&Ranked]) -> Vec<Route> {
    let mut routes = routes.to_vec();
    routes.sort_by(|one, other| one.rank.cmp(&other.rank));
    routes.iter().map(|ranked| ranked.route.clone()).collect()
}
