//! Parses the tables of `aplomb get -A -o wide`. They show no versions, so an object's version must be the same before
//! and after.

use anyhow::{Context, Result};
use aplomb_console::table::KindInfo;

use crate::sample::{Cells, Object, is_age};

/// The titles of a table, each with its start position.
fn title_columns(header: &str) -> Vec<(usize, String)> {
    let letters: Vec<char> = header.chars().collect();
    let mut found: Vec<(usize, String)> = Vec::new();
    for (at, letter) in letters.iter().enumerate() {
        let begins = at == 0 || letters[at.saturating_sub(2)..at] == [' ', ' '];
        if *letter != ' ' && begins {
            found.push((at, String::new()));
        }
        if let Some((_, title)) = found.last_mut() {
            title.push(*letter);
        }
    }
    let trimmed = found.into_iter();
    trimmed.map(|(at, title)| (at, title.trim().to_owned())).collect()
}

/// The cells of every object, without ages.
pub(crate) fn parse_table(kinds: &[KindInfo], text: &str) -> Result<Vec<(Object, Cells)>> {
    let mut found = Vec::new();
    for table in text.split("\n\n") {
        let mut lines = table.lines().filter(|line| !line.is_empty());
        let Some(header) = lines.next() else { continue };
        let titles = title_columns(header);
        for line in lines {
            found.push(parse_row(kinds, &titles, line)?);
        }
    }
    Ok(found)
}

fn parse_row(kinds: &[KindInfo], titles: &[(usize, String)], line: &str) -> Result<(Object, Cells)> {
    let letters: Vec<char> = line.chars().collect();
    let ends = titles.iter().skip(1).map(|(at, _)| *at);
    let ends = ends.chain([letters.len()]);
    let mut texts = titles.iter().zip(ends).map(|((begin, title), end)| {
        let (begin, end) = ((*begin).min(letters.len()), end.min(letters.len()));
        let text: String = letters[begin..end].iter().collect();
        (title.as_str(), text.trim().to_owned())
    });
    let mut namespace = String::new();
    let mut first = texts.next().context("a table has no column")?;
    if first.0 == "NAMESPACE" {
        namespace = first.1;
        first = texts.next().context("a table has no names")?;
    }
    let (prefix, name) = first.1.split_once('/').context("a name has no kind")?;
    let resource = kinds.iter().find(|it| it.qualified_name() == prefix);
    let resource = resource.with_context(|| format!("unknown kind {prefix}"))?;
    let mut cells = Cells::new();
    for (title, text) in texts {
        let column = resource
            .columns
            .iter()
            .find(|it| it.name.to_uppercase() == title)
            .with_context(|| format!("{} has no column {title}", resource.kind))?;
        if !is_age(kinds, &resource.kind, &column.name) {
            cells.insert(column.name.clone(), text);
        }
    }
    Ok(((resource.kind.clone(), namespace, name.to_owned()), cells))
}
