//! Our kinds with all their names, and the columns of each.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition,
};

use super::TableColumn;
use super::path::ColumnPath;

/// A kind of ours, from its CRD.
#[derive(Clone, Debug)]
pub struct KindInfo {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub plural: String,
    pub singular: String,
    /// Short names for the command line.
    pub short_names: Vec<String>,
    /// Categories, such as `all`.
    pub categories: Vec<String>,
    pub namespaced: bool,
    /// The name first, then the columns of the CRD.
    pub columns: Vec<TableColumn>,
    /// The path of each column's value.
    pub(super) paths: Vec<ColumnPath>,
}

impl KindInfo {
    fn from_crd(definition: CustomResourceDefinition) -> Self {
        let spec = definition.spec;
        let names = spec.names;
        let version = spec.versions.into_iter().find(|version| version.served);
        let version = version.expect("every CRD of ours has a served version");
        let declared = version.additional_printer_columns.unwrap_or_default();
        let declared = std::iter::once(name_column()).chain(declared);
        let (columns, paths) = declared.map(parse_column).unzip();
        Self {
            group: spec.group,
            version: version.name,
            singular: names.singular.unwrap_or_else(|| names.kind.to_lowercase()),
            kind: names.kind,
            plural: names.plural,
            short_names: names.short_names.unwrap_or_default(),
            categories: names.categories.unwrap_or_default(),
            namespaced: spec.scope == "Namespaced",
            columns,
            paths,
        }
    }

    /// `stableegress.aplomb.dev`: the prefix of names where kubectl prints several kinds.
    #[must_use]
    pub fn qualified_name(&self) -> String {
        format!("{}.{}", self.singular, self.group)
    }

    /// `aplomb.dev/v1alpha1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    /// Whether `word` is a name of this kind, in any case and with or without the group.
    fn matches_name(&self, word: &str) -> bool {
        let word = word.to_lowercase();
        let bare = word.strip_suffix(&format!(".{}", self.group));
        let bare = bare.unwrap_or(&word);
        let names = [&self.plural, &self.singular];
        names.into_iter().any(|name| name == bare)
            || self.kind.to_lowercase() == bare
            || self.short_names.iter().any(|name| name == bare)
    }
}

/// All our kinds, in the order of their CRDs.
#[must_use]
pub fn all_resources() -> Vec<KindInfo> {
    let definitions = aplomb_api::definitions();
    definitions.into_iter().map(KindInfo::from_crd).collect()
}

/// The kinds that `word` names: one kind, those of a category, or all for `all`.
#[must_use]
pub fn find_by_name(word: &str) -> Vec<KindInfo> {
    let mut known = all_resources();
    if word == "all" {
        return known;
    }
    let one = known.iter().position(|it| it.matches_name(word));
    if let Some(one) = one {
        return vec![known.swap_remove(one)];
    }
    known.retain(|it| it.categories.iter().any(|category| category == word));
    known
}

fn name_column() -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        name: "Name".to_owned(),
        type_: "string".to_owned(),
        json_path: ".metadata.name".to_owned(),
        ..CustomResourceColumnDefinition::default()
    }
}

fn parse_column(declared: CustomResourceColumnDefinition) -> (TableColumn, ColumnPath) {
    let path = ColumnPath::parse(&declared.json_path);
    let column = TableColumn {
        name: declared.name,
        type_: declared.type_,
        priority: declared.priority.unwrap_or_default(),
    };
    (column, path.expect("every column of ours has a simple path"))
}
