//! The flags of `aplomb get`. Contains no logic.

use clap::{Args, ValueEnum};

use super::ClusterArgs;

#[derive(Args, Debug)]
pub(crate) struct GetArgs {
    /// Kinds, separated by commas, and names; or KIND/NAME, repeated [default: all kinds]
    #[arg(value_name = "KIND[,KIND] [NAME]|KIND/NAME")]
    pub(crate) what: Vec<String>,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Objects of every namespace
    #[arg(long, short = 'A')]
    pub(crate) all_namespaces: bool,
    /// Only objects with these labels
    #[arg(long, short = 'l', value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,
    /// Keep watching, and print each row that changes
    #[arg(long, short)]
    pub(crate) watch: bool,
    /// Output format [default: a table]
    #[arg(long, short, value_enum, value_name = "FORMAT")]
    pub(crate) output: Option<GetOutput>,
    /// Print no column titles
    #[arg(long, visible_alias = "no-header")]
    pub(crate) no_headers: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GetOutput {
    /// A table with all columns
    Wide,
    Json,
    Yaml,
    /// Kind and name, one per line
    Name,
}
