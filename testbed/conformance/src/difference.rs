//! Where two transcripts part: the first place, said so that it can be acted on.

use serde_json::Value;

/// The first difference between what the real server and the box answered, if there is one.
#[must_use]
pub fn first_difference(real: &[Value], mine: &[Value]) -> Option<String> {
    for (at, (real, mine)) in real.iter().zip(mine).enumerate() {
        let mut path = String::new();
        if let Some((real_part, my_part)) = descend(real, mine, &mut path) {
            let what = real.get("request").map(ToString::to_string).unwrap_or_default();
            return Some(format!(
                "answer {at} {what} differs at {path}\n    real: {real_part}\n    box:  {my_part}"
            ));
        }
    }
    (real.len() != mine.len()).then(|| format!("the real server gave {} answers, the box {}", real.len(), mine.len()))
}

fn descend(real: &Value, mine: &Value, path: &mut String) -> Option<(String, String)> {
    let absent = || "(absent)".to_owned();
    match (real, mine) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                let length = path.len();
                path.push('/');
                path.push_str(key);
                let found = match (a.get(key), b.get(key)) {
                    (Some(a), Some(b)) => descend(a, b, path),
                    (a, b) => Some((
                        a.map_or_else(absent, ToString::to_string),
                        b.map_or_else(absent, ToString::to_string),
                    )),
                };
                if found.is_some() {
                    return found;
                }
                path.truncate(length);
            }
            None
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                let length = path.len();
                path.push_str(&format!("/{at}"));
                let found = descend(a, b, path);
                if found.is_some() {
                    return found;
                }
                path.truncate(length);
            }
            None
        }
        (a, b) => (a != b).then(|| (a.to_string(), b.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_transcripts_do_not_differ() {
        let one = [json!({ "code": 200, "body": { "a": [1, 2] } })];
        assert_eq!(first_difference(&one, &one), None);
    }

    #[test]
    fn the_first_difference_is_named_with_its_path() {
        let real = [json!({ "code": 200, "body": { "a": [1, 2] } })];
        let mine = [json!({ "code": 200, "body": { "a": [1, 3] } })];
        let text = first_difference(&real, &mine).expect("they differ");
        assert!(text.contains("/body/a/1"), "{text}");
    }

    #[test]
    fn a_missing_answer_is_a_difference() {
        assert!(first_difference(&[json!(1)], &[]).is_some());
    }
}
