//! The part of JSONPath that our columns use: `.a.b`, `[0]` and `[?(@.type=='Ready')]`.
//!
//! A column that needs more of the language fails the test that parses all columns.

use serde_json::Value;

/// The path of a column's value in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ColumnPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
    /// The elements with this text in a field.
    Where {
        member: String,
        is: String,
    },
}

impl ColumnPath {
    /// Parses a path; `None` if it uses an unsupported part of the language.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut steps = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (step, after) = match rest.strip_prefix('[') {
                Some(inner) => parse_bracket(inner)?,
                None => parse_key(rest.strip_prefix('.')?)?,
            };
            steps.push(step);
            rest = after;
        }
        Some(Self(steps))
    }

    /// The first value found in `object`.
    pub(super) fn find_first<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        find_value(&self.0, object)
    }
}

fn parse_key(rest: &str) -> Option<(Step, &str)> {
    let end = rest.find(['.', '[']).unwrap_or(rest.len());
    let (name, after) = rest.split_at(end);
    let plain = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric());
    plain.then(|| (Step::Key(name.to_owned()), after))
}

fn parse_bracket(inner: &str) -> Option<(Step, &str)> {
    let (inside, after) = inner.split_once(']')?;
    let Some(condition) = inside.strip_prefix("?(@.") else {
        return Some((Step::Index(inside.parse().ok()?), after));
    };
    let (member, value) = condition.strip_suffix(')')?.split_once("==")?;
    let value = value.trim();
    let quoted = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    let step = Step::Where {
        member: member.trim().to_owned(),
        is: quoted('\'').or_else(|| quoted('"'))?.to_owned(),
    };
    Some((step, after))
}

fn find_value<'a>(steps: &[Step], value: &'a Value) -> Option<&'a Value> {
    let Some((step, rest)) = steps.split_first() else {
        return Some(value);
    };
    match step {
        Step::Key(key) => find_value(rest, value.get(key)?),
        Step::Index(index) => find_value(rest, value.get(index)?),
        Step::Where { member, is } => {
            let mut chosen = value
                .as_array()?
                .iter()
                .filter(|one| one[member.as_str()] == is.as_str());
            chosen.find_map(|one| find_value(rest, one))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_elements_and_conditions_are_found() {
        let object = json!({ "a": { "b": [
            { "type": "Ready", "status": "True" }, { "type": "Online", "status": "False" },
        ] } });
        let said = |path: &str| ColumnPath::parse(path).expect(path).find_first(&object).cloned();
        assert_eq!(said(".a.b[1].type"), Some(json!("Online")));
        assert_eq!(said(".a.b[?(@.type=='Online')].status"), Some(json!("False")));
        assert_eq!(said(".a.b[?(@.type==\"Ready\")].status"), Some(json!("True")));
        assert_eq!(said(".a.b[?(@.type=='Other')].status"), None);
        assert_eq!(said(".a.c.d"), None);
        assert_eq!(said(".a.b[7]"), None);
    }

    #[test]
    fn unsupported_paths_are_rejected() {
        for path in ["a", "..a", ".a[", ".a[*]", ".a[-1]", ".a[?(@.b>1)]", ".a b"] {
            assert_eq!(ColumnPath::parse(path), None, "{path}");
        }
    }
}
