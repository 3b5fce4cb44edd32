//! Parses the stable parts of the page: `<tr data-kind data-namespace data-name data-version>` with `<td data-column>`,
//! and toggles with `data-light` and `data-stage`.

use anyhow::{Context, Result};
use aplomb_console::table::KindInfo;

use crate::sample::{Sample, SampledObject, TOGGLE, is_age, parse_version};

/// The value of an attribute in an opening tag.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    Some(plain_text(rest.split('"').next()?))
}

/// Text without its entities.
fn plain_text(text: &str) -> String {
    let entities = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#34;", "\""),
        ("&#39;", "'"),
        ("&#x27;", "'"),
        ("&#x2f;", "/"),
        ("&#x2F;", "/"),
        ("&amp;", "&"),
    ];
    let replaced = |text: String, (from, to): &(&str, &str)| text.replace(from, to);
    entities.iter().fold(text.to_owned(), replaced)
}

fn object_of_tag(tag: &str) -> Option<(String, String, String)> {
    Some((
        attribute(tag, "data-kind")?,
        attribute(tag, "data-namespace")?,
        attribute(tag, "data-name")?,
    ))
}

/// What the page shows.
pub(crate) fn sample_page(kinds: &[KindInfo], html: &str) -> Result<Sample> {
    let mut sample = Sample::new();
    for row in html.split("<tr ").skip(1) {
        let (tag, rest) = row.split_once('>').context("a tag is not closed")?;
        let tag = format!(" {tag}");
        let Some(object) = object_of_tag(&tag) else {
            continue;
        };
        let body = rest.split("</tr>").next().unwrap_or_default();
        let mut shown = SampledObject {
            version: parse_version(&attribute(&tag, "data-version").context("a row has no version")?)?,
            cells: Default::default(),
        };
        for cell in body.split("<td ").skip(1) {
            let (tag, text) = cell.split_once('>').context("a cell is not closed")?;
            let Some(column) = attribute(&format!(" {tag}"), "data-column") else {
                continue;
            };
            if !is_age(kinds, &object.0, &column) {
                let text = text.split("</td>").next().unwrap_or_default();
                shown.cells.insert(column, plain_text(text.trim()));
            }
        }
        sample.insert(object, shown);
    }
    sample_toggles(html, &mut sample)?;
    Ok(sample)
}

/// Adds each tunnel's toggle to its row.
fn sample_toggles(html: &str, sample: &mut Sample) -> Result<()> {
    for item in html.split("<li class=\"tunnel\"").skip(1) {
        let (tag, rest) = item.split_once('>').context("a tag is not closed")?;
        let object = object_of_tag(tag).context("a tunnel has no name")?;
        let at = parse_version(&attribute(tag, "data-version").context("a tunnel has no version")?)?;
        let (_, toggle) = rest
            .split_once("<span class=\"toggle\"")
            .context("a tunnel has no toggle")?;
        let toggle = toggle.split('>').next().unwrap_or_default();
        let part = |name: &str| attribute(toggle, name).unwrap_or_default();
        let says = format!("{} {}", part("data-light"), part("data-stage"));
        if let Some(shown) = sample.get_mut(&object)
            && shown.version == at
        {
            shown.cells.insert(TOGGLE.to_owned(), says);
        }
    }
    Ok(())
}
