//! What the rules of a definition may cost at worst, and what the server says when that is too much.

use aplomb_apimachinery::field::FieldError;

use crate::crd::structural::Structural;

/// What one expression may cost.
const RULE_LIMIT: u64 = 10_000_000;
/// What all expressions of a schema may cost.
const SCHEMA_LIMIT: u64 = 100_000_000;
/// How many of the most expensive rules are named.
const NAMED: usize = 4;

/// The cost of a whole schema so far.
#[derive(Debug, Default)]
pub(super) struct Costs {
    total: u64,
    most_expensive: Vec<(u64, String)>,
}

impl Costs {
    /// Counts a rule; what is wrong when it costs too much by itself.
    pub(super) fn observe(&mut self, at: &str, cost: u64) -> Option<FieldError> {
        self.count(format!("{at}.rule"), cost, "estimated rule cost")
    }

    /// The same for a message expression.
    pub(super) fn observe_message(&mut self, at: &str, cost: u64) -> Option<FieldError> {
        let field = format!("{at}.messageExpression");
        self.count(field, cost, "estimated messageExpression cost")
    }

    fn count(&mut self, field: String, cost: u64, called: &str) -> Option<FieldError> {
        self.total = self.total.saturating_add(cost);
        let error =
            (cost > RULE_LIMIT).then(|| FieldError::forbidden(field.as_str(), exceeded(called, cost, RULE_LIMIT)));
        if cost >= SCHEMA_LIMIT / 100 {
            self.most_expensive.push((cost, field));
            self.most_expensive.sort_by_key(|it| std::cmp::Reverse(it.0));
            self.most_expensive.truncate(NAMED);
        }
        error
    }

    /// What is wrong when all rules together cost too much.
    pub(super) fn judge(self, path: &str) -> Vec<FieldError> {
        if self.total <= SCHEMA_LIMIT {
            return Vec::new();
        }
        let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        let mut errors: Vec<FieldError> = self
            .most_expensive
            .into_iter()
            .map(|(_, field)| FieldError::forbidden(field, why))
            .collect();
        let called = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        let why = exceeded(called, self.total, SCHEMA_LIMIT);
        errors.push(FieldError::forbidden(path, why));
        errors
    }
}

#[allow(clippy::cast_precision_loss)] // a factor for people
fn exceeded(called: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{called} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

/// How many children a value of a schema may have of each kind; `None` without a limit.
pub(super) fn most_elements(schema: &Structural) -> Option<u64> {
    let limit = match schema.type_name.as_str() {
        "object" if schema.additional.is_some() => schema.limits.max_properties,
        "array" => schema.limits.max_items,
        _ => return Some(1),
    };
    limit.map(|limit| u64::try_from(limit).unwrap_or(0))
}
