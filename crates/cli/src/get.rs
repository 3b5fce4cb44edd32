//! `aplomb get`: our kinds as kubectl prints them. Reads from the API server, prints, and watches with `--watch`.

mod print;
pub(crate) mod query;
mod watch;

use std::process::ExitCode;

use anyhow::{Result, bail};
use aplomb_console::table::KindInfo;
use kube::Client;
use serde_json::Value;

use self::print::{FoundObjects, ObjectPrinter};
use self::query::KindQuery;
use crate::EXIT_FINDING;
use crate::args::GetArgs;
use crate::cluster::{ClusterClient, get_json};
use crate::output::OutputStream;

pub(crate) async fn run(args: GetArgs, out: &OutputStream) -> Result<ExitCode> {
    let wanted = query::parse_words(&args.what)?;
    check_args(&args, &wanted)?;
    let cluster = ClusterClient::from_args(&args.cluster).await?;
    let scope = Scope {
        namespace: (!args.all_namespaces).then(|| cluster.namespace.clone()),
        selector: args.selector.clone(),
    };
    let mut seen = CollectedObjects::default();
    let look = async { collect_objects(&cluster.client, &wanted, &scope, &mut seen).await };
    cluster.with_timeout(look).await?;
    let mut kinds: Vec<&str> = wanted.iter().map(|it| it.resource.kind.as_str()).collect();
    kinds.dedup();
    let mut printer = ObjectPrinter::new(&args, out, kinds.len() > 1);
    if !seen.found.is_empty() {
        printer.print_all(&seen.found, &scope)?;
    }
    for line in &seen.missing {
        eprintln!("{line}");
    }
    if let Some(refused) = seen.refused {
        return Err(refused);
    }
    match (&wanted[..], args.watch) {
        _ if !seen.missing.is_empty() => Ok(ExitCode::from(EXIT_FINDING)),
        ([one], true) => watch::watch_objects(&cluster, one, &scope, seen.found, &mut printer).await,
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn check_args(args: &GetArgs, wanted: &[KindQuery]) -> Result<()> {
    if args.watch && wanted.len() != 1 {
        bail!("--watch follows one kind; use `aplomb get httpproxies --watch` or another kind");
    }
    if args.all_namespaces && wanted.iter().any(|it| it.name.is_some()) {
        bail!("a name needs one namespace; leave out --all-namespaces, or the name");
    }
    if args.selector.is_some() && wanted.iter().any(|it| it.name.is_some()) {
        bail!("a name and --selector exclude each other; use one of them");
    }
    Ok(())
}

struct Scope {
    namespace: Option<String>,
    selector: Option<String>,
}

/// Objects found, names not found, and the first rejected request.
#[derive(Default)]
struct CollectedObjects {
    found: Vec<FoundObjects>,
    missing: Vec<String>,
    refused: Option<anyhow::Error>,
}

impl CollectedObjects {
    /// Objects of one kind that were named one by one are printed together.
    fn push_objects(&mut self, wanted: &KindQuery, objects: Vec<Value>, alone: bool) {
        let named = wanted.name.is_some();
        if let Some(last) = self.found.last_mut()
            && named
            && last.resource.kind == wanted.resource.kind
        {
            last.objects.extend(objects);
            return;
        }
        self.found.push(FoundObjects {
            resource: wanted.resource.clone(),
            objects,
            named,
            single: named && alone,
        });
    }
}

async fn collect_objects(
    client: &Client,
    wanted: &[KindQuery],
    scope: &Scope,
    seen: &mut CollectedObjects,
) -> Result<()> {
    let mut absent = None;
    for one in wanted {
        match read_objects(client, one, scope).await {
            Ok(objects) => seen.push_objects(one, objects, wanted.len() == 1),
            Err(kube::Error::Api(status)) if status.code == 404 && status.reason == "NotFound" => {
                seen.missing.push(one.not_found());
            }
            // A kind that is not installed has no objects. It is an error only if no kind is installed.
            Err(kube::Error::Api(status)) if status.code == 404 => {
                absent = Some(read_error(&one.resource, scope, kube::Error::Api(status)));
            }
            Err(error @ kube::Error::Api(_)) => {
                seen.refused.get_or_insert(read_error(&one.resource, scope, error));
            }
            Err(error) => return Err(error.into()),
        }
    }
    let named = wanted.iter().any(|it| it.named);
    match absent {
        Some(absent) if named || seen.found.is_empty() => Err(absent),
        _ => Ok(()),
    }
}

/// The objects of one kind, or the one with the given name.
async fn read_objects(client: &Client, one: &KindQuery, scope: &Scope) -> kube::Result<Vec<Value>> {
    let mut path = one.api_path(scope.namespace.as_deref());
    if let Some(selector) = &scope.selector {
        let query: String = selector.bytes().map(percent_encode).collect();
        path.push_str(&format!("?labelSelector={query}"));
    }
    let answer = get_json(client, &path).await?;
    Ok(match one.name {
        Some(_) => vec![answer],
        None => answer["items"].as_array().cloned().unwrap_or_default(),
    })
}

fn percent_encode(byte: u8) -> String {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    }
}

fn read_error(resource: &KindInfo, scope: &Scope, error: kube::Error) -> anyhow::Error {
    let selected = match &scope.selector {
        Some(selector) => format!(" with --selector {selector:?}"),
        None => String::new(),
    };
    let what = format!("cannot list {}{selected}", resource.plural);
    anyhow::Error::new(error).context(what)
}
