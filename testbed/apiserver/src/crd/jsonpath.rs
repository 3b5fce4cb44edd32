//! The JSONPath of printer columns and selectable fields, as kubectl's library evaluates it.
//!
//! One path between braces: fields, indices, slices, wildcards, recursion and filters. Templates
//! with text and ranges do not occur here.

use std::iter::Peekable;
use std::str::Chars;

use serde_json::Value;

/// A parsed path.
#[derive(Clone, Debug)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
enum Step {
    Field(String),
    Slice(Option<i64>, Option<i64>),
    Index(i64),
    Wildcard,
    Recursive,
    Filter(Filter),
}

#[derive(Clone, Debug)]
struct Filter {
    left: JsonPath,
    operator: String,
    right: Option<Operand>,
}

#[derive(Clone, Debug)]
enum Operand {
    Literal(Value),
    Path(JsonPath),
}

impl JsonPath {
    /// Parses `.spec.x`; a leading `$` or dot may be left out.
    ///
    /// # Errors
    /// What cannot be read.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut chars = text.trim().chars().peekable();
        let mut steps = Vec::new();
        while let Some(next) = chars.next() {
            match next {
                '$' | '@' if steps.is_empty() => {}
                '.' if chars.peek() == Some(&'.') => {
                    chars.next();
                    steps.push(Step::Recursive);
                    push_name(&mut chars, &mut steps);
                }
                '.' => push_name(&mut chars, &mut steps),
                '[' => steps.push(parse_bracket(&mut chars)?),
                '*' => steps.push(Step::Wildcard),
                other if steps.is_empty() => {
                    let mut name = other.to_string();
                    take_name(&mut chars, &mut name);
                    steps.push(Step::Field(name));
                }
                other => {
                    return Err(format!(
                        "unrecognized character in action: U+{:04X} '{other}'",
                        u32::from(other)
                    ));
                }
            }
        }
        Ok(Self { steps })
    }

    /// The values the path leads to; missing members lead nowhere.
    ///
    /// # Errors
    /// An index out of bounds, or a list operation on something else.
    pub fn find(&self, value: &Value) -> Result<Vec<Value>, String> {
        let mut current = vec![value.clone()];
        for step in &self.steps {
            current = step.apply(&current)?;
        }
        Ok(current)
    }
}

fn push_name(chars: &mut Peekable<Chars<'_>>, steps: &mut Vec<Step>) {
    if chars.peek() == Some(&'*') {
        chars.next();
        steps.push(Step::Wildcard);
        return;
    }
    let mut name = String::new();
    take_name(chars, &mut name);
    if !name.is_empty() {
        steps.push(Step::Field(name));
    }
}

fn take_name(chars: &mut Peekable<Chars<'_>>, name: &mut String) {
    while let Some(next) = chars.next_if(|c| !matches!(c, '.' | '[' | ']' | ' ')) {
        match next {
            '\\' => name.extend(chars.next()),
            other => name.push(other),
        }
    }
}

fn parse_bracket(chars: &mut Peekable<Chars<'_>>) -> Result<Step, String> {
    let inside = take_balanced(chars)?;
    let text = inside.trim();
    if text == "*" {
        return Ok(Step::Wildcard);
    }
    if let Some(filter) = text.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        return parse_filter(filter).map(Step::Filter);
    }
    if let Some(name) = unquote(text) {
        return Ok(Step::Field(name));
    }
    let number = |part: &str| {
        part.trim()
            .parse::<i64>()
            .map_err(|_| format!("invalid array index {text}"))
    };
    match text.split_once(':') {
        None => number(text).map(Step::Index),
        Some((from, to)) => {
            let optional = |part: &str| {
                if part.trim().is_empty() {
                    Ok(None)
                } else {
                    number(part).map(Some)
                }
            };
            Ok(Step::Slice(optional(from)?, optional(to)?))
        }
    }
}

/// Text up to the bracket that closes, quotes and inner brackets passed over.
fn take_balanced(chars: &mut Peekable<Chars<'_>>) -> Result<String, String> {
    let (mut text, mut depth, mut quote) = (String::new(), 0, None);
    for c in chars.by_ref() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Ok(text),
            (None, ']') => depth -= 1,
            _ => {}
        }
        text.push(c);
    }
    Err("unterminated array".to_owned())
}

fn unquote(text: &str) -> Option<String> {
    let inner = text.strip_prefix('\'')?.strip_suffix('\'');
    inner
        .or_else(|| text.strip_prefix('"')?.strip_suffix('"'))
        .map(str::to_owned)
}

fn parse_filter(text: &str) -> Result<Filter, String> {
    for operator in ["==", "!=", "<=", ">=", "<", ">"] {
        if let Some((left, right)) = text.split_once(operator) {
            let right = Some(parse_operand(right.trim())?);
            return Ok(Filter {
                left: JsonPath::parse(left.trim())?,
                operator: operator.to_owned(),
                right,
            });
        }
    }
    Ok(Filter {
        left: JsonPath::parse(text)?,
        operator: "exists".to_owned(),
        right: None,
    })
}

fn parse_operand(text: &str) -> Result<Operand, String> {
    let quoted = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    if let Some(literal) = quoted.map(str::to_owned).or_else(|| unquote(text)) {
        return Ok(Operand::Literal(literal.into()));
    }
    if text.starts_with(['@', '$']) {
        return JsonPath::parse(text).map(Operand::Path);
    }
    let number = text
        .parse::<i64>()
        .map(Value::from)
        .or_else(|_| text.parse::<f64>().map(Value::from));
    let literal = number.ok().or_else(|| text.parse::<bool>().ok().map(Value::from));
    literal
        .map(Operand::Literal)
        .ok_or_else(|| format!("unrecognized identifier {text}"))
}

impl Step {
    fn apply(&self, input: &[Value]) -> Result<Vec<Value>, String> {
        let mut out = Vec::new();
        for value in input {
            match self {
                Self::Field(name) => out.extend(value.get(name).cloned()),
                Self::Wildcard => out.extend(children(value)),
                Self::Recursive => descend(value, &mut out),
                Self::Index(index) => out.extend(slice(value, Some(*index), None, true)?),
                Self::Slice(from, to) => out.extend(slice(value, *from, *to, false)?),
                Self::Filter(filter) => out.extend(filter.apply(value)?),
            }
        }
        Ok(out)
    }
}

fn children(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items.clone(),
        Value::Object(map) => map.values().cloned().collect(),
        _ => Vec::new(),
    }
}

fn descend(value: &Value, out: &mut Vec<Value>) {
    let below = children(value);
    if !below.is_empty() {
        out.push(value.clone());
        below.iter().for_each(|child| descend(child, out));
    }
}

fn slice(value: &Value, from: Option<i64>, to: Option<i64>, single: bool) -> Result<Vec<Value>, String> {
    if value.is_null() {
        return Ok(Vec::new());
    }
    let items = value.as_array().ok_or("not array or slice")?;
    let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let absolute = |index: i64| if index < 0 { index + length } else { index };
    let start = absolute(from.unwrap_or(0));
    let end = if single {
        start + 1
    } else {
        absolute(to.unwrap_or(length))
    };
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    let found = range.and_then(|(start, end)| items.get(start..end));
    found
        .map(<[Value]>::to_vec)
        .ok_or_else(|| format!("array index out of bounds: index {start}, length {length}"))
}

impl Filter {
    fn apply(&self, value: &Value) -> Result<Vec<Value>, String> {
        let items = value.as_array().ok_or("not array or slice and cannot be filtered")?;
        let mut kept = Vec::new();
        for item in items {
            let left = self.left.find(item)?;
            if self.holds(&left, item)? {
                kept.push(item.clone());
            }
        }
        Ok(kept)
    }

    fn holds(&self, left: &[Value], item: &Value) -> Result<bool, String> {
        let right = match &self.right {
            None => return Ok(!left.is_empty()),
            Some(Operand::Literal(value)) => vec![value.clone()],
            Some(Operand::Path(path)) => path.find(item)?,
        };
        let ([left], [right]) = (left, right.as_slice()) else {
            return Ok(false);
        };
        let order = match (left, right) {
            (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            (a, b) if a == b => Some(std::cmp::Ordering::Equal),
            _ => return Ok(self.operator == "!="),
        };
        Ok(order.is_some_and(|order| match self.operator.as_str() {
            "==" => order.is_eq(),
            "!=" => order.is_ne(),
            "<" => order.is_lt(),
            "<=" => order.is_le(),
            ">" => order.is_gt(),
            _ => order.is_ge(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn find(path: &str) -> Vec<Value> {
        let object = json!({"spec": {"a.b": 1, "list": [{"n": 1}, {"n": 2}]},
            "status": {"conditions": [{"type": "Synced", "status": "False"}, {"type": "Ready", "status": "True"}]}});
        JsonPath::parse(path).and_then(|p| p.find(&object)).unwrap_or_default()
    }

    #[test]
    fn the_forms_printer_columns_use() {
        assert_eq!(
            find(r#".status.conditions[?(@.type=="Ready")].status"#),
            [json!("True")]
        );
        assert_eq!(find(".spec.list[*].n"), [json!(1), json!(2)]);
        assert_eq!(find(".spec.list[0].n"), [json!(1)]);
        assert_eq!(find(".spec.list[-1:].n"), [json!(2)]);
        assert_eq!(find(r".spec.a\.b"), [json!(1)]);
        assert_eq!(find(".spec['a.b']"), [json!(1)]);
        assert_eq!(find(".spec.missing.more"), Vec::<Value>::new());
        assert_eq!(find(".spec.list[7]"), Vec::<Value>::new());
        assert_eq!(find("..n"), [json!(1), json!(2)]);
    }
}
