//! Lists: filters, order and pages, the same for every resource.
//!
//! Works on what clients see, so that a list can never sort by something it does not show.

use aplomb_apimachinery::labels::LabelSelector;
use aplomb_apimachinery::query::Query;
use serde_json::{Value, json};

use super::error::ApiError;

const PER_PAGE: usize = 25;
const MOST_PER_PAGE: usize = 50;

/// What a query asks of a list.
#[derive(Debug)]
pub(super) struct Listing {
    ids: Vec<u64>,
    names: Vec<String>,
    statuses: Vec<String>,
    selector: LabelSelector,
    order: Vec<(String, bool)>,
    page: usize,
    per_page: usize,
}

impl Listing {
    /// Reads a query. `sortable` are the members that may be sorted by.
    pub(super) fn of(query: &Query, sortable: &[&str]) -> Result<Self, ApiError> {
        let selector = query.first("label_selector").unwrap_or_default();
        let selector = LabelSelector::parse(selector).map_err(|why| ApiError::invalid("label_selector", &why))?;
        let order = query.all("sort").flat_map(|sort| sort.split(','));
        let order = order.map(|sort| ordering(sort, sortable));
        Ok(Self {
            ids: ids(query)?,
            names: query.all("name").map(str::to_owned).collect(),
            statuses: query.all("status").map(str::to_owned).collect(),
            selector,
            order: order.collect::<Result<_, _>>()?,
            page: number(query, "page", 1)?,
            per_page: number(query, "per_page", PER_PAGE)?.min(MOST_PER_PAGE),
        })
    }

    /// Whether it asks for resources by id.
    pub(super) fn names_ids(&self) -> bool {
        !self.ids.is_empty()
    }

    /// The page that was asked for, under the name of the resource, with `meta.pagination`.
    pub(super) fn answer(&self, resource: &str, all: impl Iterator<Item = Value>) -> Value {
        let mut found: Vec<Value> = all.filter(|value| self.wants(value)).collect();
        // Stable, so the last key is applied first.
        for (key, descending) in self.order.iter().rev() {
            found.sort_by(|a, b| compare(&a[key], &b[key], *descending));
        }
        let total = found.len();
        let last = total.div_ceil(self.per_page).max(1);
        let skip = (self.page - 1).saturating_mul(self.per_page);
        let page: Vec<Value> = found.into_iter().skip(skip).take(self.per_page).collect();
        let previous = (self.page > 1).then(|| self.page - 1);
        let next = (self.page < last).then(|| self.page + 1);
        json!({
            resource: page,
            "meta": {"pagination": {
                "page": self.page, "per_page": self.per_page, "previous_page": previous,
                "next_page": next, "last_page": last, "total_entries": total,
            }},
        })
    }

    fn wants(&self, value: &Value) -> bool {
        let named =
            |given: &[String], member: &str| given.is_empty() || given.iter().any(|wanted| value[member] == *wanted);
        let by_id = self.ids.is_empty() || self.ids.iter().any(|id| value["id"] == *id);
        by_id
            && named(&self.names, "name")
            && named(&self.statuses, "status")
            && (self.selector.is_empty() || self.selector.matches_labels(&value["labels"]))
    }
}

fn ids(query: &Query) -> Result<Vec<u64>, ApiError> {
    let ids = query.all("id").map(str::parse);
    ids.collect::<Result<_, _>>()
        .map_err(|_| ApiError::invalid("id", "must be an integer"))
}

fn number(query: &Query, name: &str, absent: usize) -> Result<usize, ApiError> {
    match query.first(name).map(str::parse) {
        None => Ok(absent),
        Some(Ok(number)) if number > 0 => Ok(number),
        Some(_) => Err(ApiError::invalid(name, "must be an integer above 0")),
    }
}

fn ordering(sort: &str, sortable: &[&str]) -> Result<(String, bool), ApiError> {
    let (key, direction) = sort.split_once(':').unwrap_or((sort, "asc"));
    let descending = match direction {
        "asc" => false,
        "desc" => true,
        _ => return Err(ApiError::invalid("sort", "direction must be asc or desc")),
    };
    if sortable.contains(&key) {
        Ok((key.to_owned(), descending))
    } else {
        let known = sortable.join(", ");
        Err(ApiError::invalid("sort", &format!("must be one of {known}")))
    }
}

fn compare(a: &Value, b: &Value, descending: bool) -> std::cmp::Ordering {
    let order = match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_u64().cmp(&b.as_u64()),
        _ => a.as_str().cmp(&b.as_str()),
    };
    if descending { order.reverse() } else { order }
}
