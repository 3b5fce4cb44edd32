//! Parses kinds and names in all forms that kubectl accepts. Pure.

use anyhow::{Result, bail, ensure};
use aplomb_console::table::{KindInfo, all_resources, find_by_name};

/// One kind, or one object of a kind.
#[derive(Clone, Debug)]
pub(crate) struct KindQuery {
    pub(crate) resource: KindInfo,
    pub(crate) name: Option<String>,
    /// Whether it was named itself, and not as part of a category.
    pub(crate) named: bool,
}

impl KindQuery {
    /// The message for an object that does not exist, as kubectl prints it.
    pub(crate) fn not_found(&self) -> String {
        let KindInfo { plural, group, .. } = &self.resource;
        let name = self.name.as_deref().unwrap_or_default();
        format!("Error from server (NotFound): {plural}.{group} {name:?} not found")
    }

    pub(crate) fn api_path(&self, namespace: Option<&str>) -> String {
        let KindInfo { plural, .. } = &self.resource;
        let mut path = format!("/apis/{}", self.resource.api_version());
        if let (Some(namespace), true) = (namespace, self.resource.namespaced) {
            path.push_str(&format!("/namespaces/{namespace}"));
        }
        path.push_str(&format!("/{plural}"));
        if let Some(name) = &self.name {
            path.push_str(&format!("/{name}"));
        }
        path
    }
}

/// The kinds and objects that the arguments name.
pub(crate) fn parse_words(words: &[String]) -> Result<Vec<KindQuery>> {
    let Some((kinds, names)) = words.split_first() else {
        return Ok(from_kinds(all_resources(), false));
    };
    if kinds.contains('/') {
        return words.iter().map(|word| parse_name(word)).collect();
    }
    let mut all = Vec::new();
    for word in kinds.split(',') {
        let found = find_kinds(word)?;
        let asked = found.len() == 1;
        all.extend(from_kinds(found, asked));
    }
    if names.is_empty() {
        return Ok(all);
    }
    let each = |it: KindQuery| {
        let with = move |name: &String| KindQuery {
            name: Some(name.clone()),
            named: true,
            ..it.clone()
        };
        names.iter().map(with).collect::<Vec<_>>()
    };
    for name in names {
        ensure!(
            !name.contains('/'),
            "invalid name {name:?}; use KIND NAME, or KIND/NAME for each object"
        );
    }
    Ok(all.into_iter().flat_map(each).collect())
}

/// `KIND/NAME`.
pub(crate) fn parse_name(word: &str) -> Result<KindQuery> {
    let Some((kind, name)) = word.split_once('/') else {
        bail!("{word:?} does not name an object; use KIND/NAME, such as httpproxy/web");
    };
    ensure!(
        !name.is_empty() && !name.contains('/'),
        "{word:?} does not name an object; use KIND/NAME, such as httpproxy/web"
    );
    let mut kinds = find_kinds(kind)?;
    ensure!(
        kinds.len() == 1,
        "{kind} means several kinds; name one of them before the /"
    );
    Ok(KindQuery {
        resource: kinds.remove(0),
        name: Some(name.to_owned()),
        named: true,
    })
}

fn from_kinds(kinds: Vec<KindInfo>, asked: bool) -> Vec<KindQuery> {
    let wanted = |resource| KindQuery {
        resource,
        name: None,
        named: asked,
    };
    kinds.into_iter().map(wanted).collect()
}

fn find_kinds(word: &str) -> Result<Vec<KindInfo>> {
    let found = find_by_name(word);
    if !found.is_empty() {
        return Ok(found);
    }
    let known: Vec<String> = all_resources().into_iter().map(|it| it.plural).collect();
    bail!("unknown kind {word:?}; use one of {}, or all", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api_paths(words: &[&str]) -> Result<Vec<String>> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let found = parse_words(&words)?;
        Ok(found.iter().map(|it| it.api_path(Some("team"))).collect())
    }

    #[test]
    fn kinds_and_names_are_written_as_for_kubectl() {
        const GROUP: &str = "/apis/aplomb.dev/v1alpha1";
        for (words, paths) in [
            (&["hp"][..], &["/namespaces/team/httpproxies"][..]),
            (&["hp", "web"], &["/namespaces/team/httpproxies/web"]),
            (
                &["seg/a", "hp/b"],
                &["/stableegresses/a", "/namespaces/team/httpproxies/b"],
            ),
            (&["seg,conn"], &["/stableegresses", "/namespaces/team/connectors"]),
        ] {
            let paths: Vec<String> = paths.iter().map(|path| format!("{GROUP}{path}")).collect();
            assert_eq!(api_paths(words).expect("words"), paths);
        }
        let all = aplomb_console::table::all_resources().len();
        assert_eq!(api_paths(&[]).expect("all").len(), all);
        assert_eq!(api_paths(&["all"]).expect("all").len(), all);
    }

    #[test]
    fn an_unknown_kind_is_answered_with_the_known_kinds() {
        for words in [
            &["pods"][..],
            &["hp/"],
            &["all/web"],
            &["hp/web", "web"],
            &["hp", "a/b"],
        ] {
            let said = api_paths(words).expect_err("not a kind").to_string();
            assert!(
                said.contains("httpproxies") || said.contains("KIND") || said.contains("name one"),
                "{said}"
            );
        }
    }
}
