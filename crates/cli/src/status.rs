//! `aplomb status`: operators, watches, rate limits, queues and problems on one screen. Reads from the operators and
//! the API server, prints, and with `--wait` repeats until no problem is left.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use aplomb_console::status::Overview;
use aplomb_console::table::{TableLayout, all_resources};
use aplomb_console::terminal::{ScreenData, merge_overview, sections};
use tokio::time::Instant;

use crate::args::{StatusArgs, StatusOutput};
use crate::cluster::{ClusterClient, list_items};
use crate::discovery::{self, FoundOperators};
use crate::error_text;
use crate::output::{OutputStream, json_text};
use crate::{EXIT_FINDING, EXIT_TIMED_OUT};

/// Polling interval of `--wait`.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) async fn run(args: StatusArgs, out: &OutputStream) -> Result<ExitCode> {
    let cluster = ClusterClient::from_args(&args.cluster).await?;
    let deadline = Instant::now() + args.timeout;
    loop {
        let look = read_overview(&cluster, &args.admin.admin);
        let (status, gaps) = cluster.with_timeout(look).await?;
        let well = status.is_healthy();
        if args.wait && !well && Instant::now() + POLL_INTERVAL < deadline {
            tokio::time::sleep(POLL_INTERVAL).await;
            continue;
        }
        print_status(&status, &gaps, args.output, out)?;
        return Ok(match (well, args.wait) {
            (true, _) => ExitCode::SUCCESS,
            (false, false) => ExitCode::from(EXIT_FINDING),
            (false, true) => {
                eprintln!("aplomb: timed out; the problems above remain");
                ExitCode::from(EXIT_TIMED_OUT)
            }
        });
    }
}

/// The current state, and what could not be read.
async fn read_overview(cluster: &ClusterClient, admins: &[String]) -> Result<(Overview, Vec<String>)> {
    let FoundOperators {
        admins,
        leases,
        mut gaps,
    } = discovery::find_operators(cluster, admins).await?;
    let mut readings = ScreenData {
        leases,
        ..ScreenData::default()
    };
    for admin in &admins {
        match read_status(admin).await {
            Ok(Some(status)) => readings.statuses.push(status),
            Ok(None) => gaps.push(format!(
                "{} has no /status.json; it is older than this program",
                admin.name()
            )),
            Err(error) => gaps.push(error_text::error_line(&error)),
        }
    }
    read_objects(cluster, &mut readings, &mut gaps).await?;
    let now = aplomb::Clock::system().now();
    Ok((merge_overview(&readings, now), gaps))
}

async fn read_status(admin: &discovery::AdminClient) -> Result<Option<Overview>> {
    match admin.get("/status.json").await? {
        Some(value) => Ok(Some(serde_json::from_value(value)?)),
        None => Ok(None),
    }
}

/// Our objects of every namespace, or of the current one if only that is allowed.
async fn read_objects(cluster: &ClusterClient, readings: &mut ScreenData, gaps: &mut Vec<String>) -> Result<()> {
    let mut refused = None;
    let mut known = 0;
    for resource in all_resources() {
        let base = format!("/apis/{}", resource.api_version());
        let plural = &resource.plural;
        let mut answer = list_items(&cluster.client, &format!("{base}/{plural}")).await;
        if resource.namespaced && matches!(&answer, Err(kube::Error::Api(status)) if status.code == 403) {
            let namespace = &cluster.namespace;
            answer = list_items(&cluster.client, &format!("{base}/namespaces/{namespace}/{plural}")).await;
        }
        match answer {
            Ok(objects) => {
                known += 1;
                readings.objects.insert(&resource.kind, objects);
            }
            // Credentials that are rejected can read nothing, so no single kind is missing.
            Err(kube::Error::Api(status)) if status.code != 401 => {
                let absent = status.code == 404;
                let error = kube::Error::Api(status);
                if !absent {
                    gaps.push(format!("{plural}: {}", error_text::server_error_line(&error)));
                }
                refused = Some(error);
            }
            Err(error) => return Err(error.into()),
        }
    }
    // If nothing could be read, the status must not look healthy.
    match refused {
        Some(refused) if known == 0 => Err(refused.into()),
        _ => Ok(()),
    }
}

fn print_status(status: &Overview, gaps: &[String], output: StatusOutput, out: &OutputStream) -> Result<()> {
    match output {
        StatusOutput::Json => out.print(&json_text(&serde_json::to_value(status)?))?,
        StatusOutput::Table => {
            let sections = sections(status);
            let texts = sections
                .iter()
                .map(|lines| out.format_columns(&mut TableLayout::default(), lines));
            out.print(&texts.collect::<Vec<_>>().join("\n"))?;
        }
    }
    for gap in gaps {
        eprintln!("aplomb: not shown: {gap}");
    }
    Ok(())
}
