//! Functions on strings.

use aplomb_go_compat::regex;

use super::eval::Outcome;
use super::value::Val;

/// Calls a function of this library, if `function` is one for these values.
pub(super) fn call(function: &str, values: &[Val]) -> Option<Outcome> {
    match (function, values) {
        (_, [Val::String(text), args @ ..]) => on_text(function, text, args),
        ("join", [Val::List(items, _)]) => Some(join(items, "")),
        ("join", [Val::List(items, _), Val::String(between)]) => Some(join(items, between)),
        _ => None,
    }
}

fn on_text(function: &str, text: &str, args: &[Val]) -> Option<Outcome> {
    let outcome = match (function, args) {
        ("contains", [Val::String(part)]) => Ok(Val::Bool(text.contains(&**part))),
        ("startsWith", [Val::String(part)]) => Ok(Val::Bool(text.starts_with(&**part))),
        ("endsWith", [Val::String(part)]) => Ok(Val::Bool(text.ends_with(&**part))),
        ("matches", [Val::String(pattern)]) => compile(pattern).map(|regex| Val::Bool(regex.is_match(text))),
        ("find", [Val::String(pattern)]) => {
            compile(pattern).map(|regex| Val::text(regex.find(text).map_or("", |found| found.as_str())))
        }
        ("findAll", [Val::String(pattern), rest @ ..]) => find_all(text, pattern, rest),
        ("lowerAscii", []) => Ok(Val::text(&text.to_ascii_lowercase())),
        ("upperAscii", []) => Ok(Val::text(&text.to_ascii_uppercase())),
        ("trim", []) => Ok(Val::text(text.trim())),
        ("charAt", [Val::Int(at)]) => char_at(text, *at),
        ("indexOf", [Val::String(part), rest @ ..]) => index_of(text, part, rest),
        ("lastIndexOf", [Val::String(part), rest @ ..]) => last_index_of(text, part, rest),
        ("replace", [Val::String(from), Val::String(to), rest @ ..]) => replace(text, from, to, rest),
        ("split", [Val::String(at), rest @ ..]) => split(text, at, rest),
        ("substring", [Val::Int(from), rest @ ..]) => substring(text, *from, rest),
        ("strings.quote", []) => Ok(Val::text(&aplomb_go_compat::quote(text))),
        _ => return None,
    };
    Some(outcome)
}

fn compile(pattern: &str) -> Result<::regex::Regex, String> {
    regex::compile(pattern).ok_or_else(|| regex::complaint(pattern))
}

fn count(rest: &[Val]) -> Option<i64> {
    match rest {
        [Val::Int(count)] => Some(*count),
        _ => None,
    }
}

fn limited<T>(items: impl Iterator<Item = T>, limit: Option<i64>) -> Vec<T> {
    let limit = limit
        .and_then(|limit| usize::try_from(limit).ok())
        .unwrap_or(usize::MAX);
    items.take(limit).collect()
}

fn find_all(text: &str, pattern: &str, rest: &[Val]) -> Outcome {
    let regex = compile(pattern)?;
    Ok(Val::list(limited(
        regex.find_iter(text).map(|found| Val::text(found.as_str())),
        count(rest),
    )))
}

fn char_at(text: &str, at: i64) -> Outcome {
    let length = text.chars().count();
    let index = usize::try_from(at).ok().filter(|at| *at <= length);
    let index = index.ok_or_else(|| format!("index out of range: {at}"))?;
    Ok(Val::text(&text.chars().skip(index).take(1).collect::<String>()))
}

fn index(at: Option<usize>) -> Val {
    Val::Int(at.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1))
}

fn index_of(text: &str, part: &str, rest: &[Val]) -> Outcome {
    let (text, part): (Vec<char>, Vec<char>) = (text.chars().collect(), part.chars().collect());
    let from = usize::try_from(count(rest).unwrap_or(0))
        .ok()
        .filter(|from| *from <= text.len());
    let from = from.ok_or_else(|| format!("index out of range: {}", count(rest).unwrap_or(0)))?;
    Ok(index((from..=text.len()).find(|at| text[*at..].starts_with(&part))))
}

fn last_index_of(text: &str, part: &str, rest: &[Val]) -> Outcome {
    let (text, part): (Vec<char>, Vec<char>) = (text.chars().collect(), part.chars().collect());
    let until = match count(rest) {
        None => text.len(),
        Some(until) => usize::try_from(until).map_err(|_| format!("index out of range: {until}"))?,
    };
    Ok(index(
        (0..=until.min(text.len()))
            .rev()
            .find(|at| text[*at..].starts_with(&part)),
    ))
}

fn replace(text: &str, from: &str, to: &str, rest: &[Val]) -> Outcome {
    let replaced = match count(rest).and_then(|count| usize::try_from(count).ok()) {
        Some(count) => text.replacen(from, to, count),
        None => text.replace(from, to),
    };
    Ok(Val::text(&replaced))
}

fn split(text: &str, at: &str, rest: &[Val]) -> Outcome {
    let limit = count(rest).unwrap_or(-1);
    let characters = || text.chars().map(|c| Val::text(&c.to_string())).collect();
    let parts: Vec<Val> = match usize::try_from(limit) {
        Ok(0) => Vec::new(),
        _ if at.is_empty() => characters(),
        Ok(limit) => text.splitn(limit, at).map(Val::text).collect(),
        Err(_) => text.split(at).map(Val::text).collect(),
    };
    Ok(Val::list(parts))
}

fn substring(text: &str, from: i64, rest: &[Val]) -> Outcome {
    let chars: Vec<char> = text.chars().collect();
    let to = count(rest).unwrap_or_else(|| i64::try_from(chars.len()).unwrap_or(i64::MAX));
    if from > to && !rest.is_empty() {
        return Err(format!("invalid substring range. start: {from}, end: {to}"));
    }
    let check = |at: i64| usize::try_from(at).ok().filter(|at| *at <= chars.len());
    let from = check(from).ok_or_else(|| format!("index out of range: {from}"))?;
    let to = check(to).ok_or_else(|| format!("index out of range: {to}"))?;
    Ok(Val::text(&chars[from..to].iter().collect::<String>()))
}

fn join(items: &[Val], between: &str) -> Outcome {
    let texts: Option<Vec<&str>> = items
        .iter()
        .map(|item| match item {
            Val::String(text) => Some(&**text),
            _ => None,
        })
        .collect();
    texts
        .map(|texts| Val::text(&texts.join(between)))
        .ok_or_else(|| "no such overload".to_owned())
}
