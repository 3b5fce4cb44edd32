//! Puts the entries of `managedFields` in YAML in an order that does not depend on the second in which
//! each was written, which is what a server sorts them by. The random runs look at that order.

const KEY: &str = "managedFields:";

/// The text with the entries of each list of owners sorted.
pub(super) fn in_order(text: &str) -> String {
    let mut lines = text.lines().peekable();
    let mut out: Vec<&str> = Vec::new();
    while let Some(line) = lines.next() {
        out.push(line);
        let Some(indent) = line.strip_suffix(KEY) else {
            continue;
        };
        let first = format!("{indent}- ");
        let rest = format!("{indent}  ");
        let mut entries: Vec<Vec<&str>> = Vec::new();
        while let Some(line) = lines.next_if(|line| line.starts_with(&first) || line.starts_with(&rest)) {
            match entries.last_mut() {
                Some(entry) if !line.starts_with(&first) => entry.push(line),
                _ => entries.push(vec![line]),
            }
        }
        entries.sort();
        out.extend(entries.into_iter().flatten());
    }
    let ended = if text.ends_with('\n') { "\n" } else { "" };
    out.join("\n") + ended
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_order_of_owners_is_lost() {
        let entry = |name: &str| format!("  - apiVersion: v1\n    manager: {name}\n");
        let object = |first: &str, second: &str| {
            let owners = format!("{}{}", entry(first), entry(second));
            format!("metadata:\n  managedFields:\n{owners}  name: x\nspec:\n  - b\n  - a\n")
        };
        assert_eq!(in_order(&object("b", "a")), object("a", "b"));
        assert_ne!(in_order(&object("a", "c")), in_order(&object("a", "b")));
        assert_eq!(in_order("  - b\n  - a"), "  - b\n  - a");
    }
}
