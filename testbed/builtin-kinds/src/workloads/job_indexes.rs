//! Lists of completion indexes (`0,2-4`): their syntax, and whether two of them have one in common.

use aplomb_apimachinery::field::go_quote;

/// How many indexes a list names, or what is wrong with it.
pub(super) fn count(indexes: &str, completions: i64) -> Result<i64, String> {
    let (mut last, mut total) = (None, 0);
    for text in indexes.split(',').filter(|_| !indexes.is_empty()) {
        let (first, end) = interval(text, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(out_of_order(last, first));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

/// The first index that is in both lists; what cannot be read is refused elsewhere.
pub(super) fn overlap(completed: &str, failed: &str, completions: i64) -> Option<String> {
    let read = |indexes: &str| -> Vec<(i64, i64)> {
        let readable = |text| interval(text, completions).ok();
        indexes.split(',').filter_map(readable).collect()
    };
    let (completed, failed) = (read(completed), read(failed));
    let (mut completed, mut failed) = (completed.iter().peekable(), failed.iter().peekable());
    while let (Some(done), Some(lost)) = (completed.peek(), failed.peek()) {
        if done.0 <= lost.1 && lost.0 <= done.1 {
            let at = done.0.max(lost.0);
            return Some(format!("failedIndexes and completedIndexes overlap at index: {at}"));
        }
        if done.0 <= lost.0 {
            completed.next();
        } else {
            failed.next();
        }
    }
    None
}

fn interval(text: &str, completions: i64) -> Result<(i64, i64), String> {
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (first, Some(last)),
        None => (text, None),
    };
    if last.is_some_and(|last| last.contains('-')) {
        let text = go_quote(text);
        return Err(format!(
            "the fragment {text} violates the requirement that an index interval can have at most two parts separated by '-'"
        ));
    }
    let first = index(first, completions)?;
    let Some(last) = last else {
        return Ok((first, first));
    };
    let last = index(last, completions)?;
    if first >= last {
        return Err(out_of_order(first, last));
    }
    Ok((first, last))
}

fn index(text: &str, completions: i64) -> Result<i64, String> {
    let quoted = go_quote(text);
    let Ok(index) = text.parse::<i64>() else {
        return Err(format!("cannot convert string to integer for index: {quoted}"));
    };
    if index >= completions {
        return Err(format!("too large index: {quoted}"));
    }
    Ok(index)
}

fn out_of_order(previous: i64, current: i64) -> String {
    format!("non-increasing order, previous: {previous}, current: {current}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_counted_or_refused_in_the_servers_words() {
        assert_eq!(count("", 3), Ok(0));
        assert_eq!(count("0,2-4", 5), Ok(4));
        assert_eq!(
            count("1-", 3),
            Err("cannot convert string to integer for index: \"\"".into())
        );
        assert_eq!(count("3", 3), Err("too large index: \"3\"".into()));
        assert_eq!(count("1,0", 3), Err(out_of_order(1, 0)));
    }

    #[test]
    fn an_index_is_either_failed_or_completed() {
        let why = "failedIndexes and completedIndexes overlap at index: 2";
        assert_eq!(overlap("0,2-4", "1-2", 5).as_deref(), Some(why));
        assert_eq!(overlap("0,3", "1-2", 5), None);
    }
}
