//! `aplomb status`: operators, watches, budgets, queues and what is not ready, on one screen. Asks the operators and the
//! API server, prints, and with `--wait` asks again until nothing is wrong.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use aplomb_console::screen::{ScreenData, sections, together};
use aplomb_console::status::Overview;
use aplomb_console::table::{TableLayout, resources};
use serde_json::Value;
use tokio::time::Instant;

use crate::args::{StatusArgs, StatusOutput};
use crate::cluster::ClusterClient;
use crate::fault;
use crate::find::{self, FoundOperators};
use crate::out::{OutputStream, json_text};

/// There is an error or a warning; notices do not count.
const FINDING: u8 = 1;
/// What `timeout` and others exit with when time is up.
const TIMED_OUT: u8 = 124;
/// How often a status is asked for while it is waited for.
const PACE: Duration = Duration::from_secs(1);

pub(crate) async fn run(args: StatusArgs, out: &OutputStream) -> Result<ExitCode> {
    let cluster = ClusterClient::of(&args.cluster).await?;
    let deadline = Instant::now() + args.timeout;
    loop {
        let look = look(&cluster, &args.admin.admin);
        let (status, gaps) = cluster.within(look).await?;
        let well = status.is_well();
        if args.wait && !well && Instant::now() + PACE < deadline {
            tokio::time::sleep(PACE).await;
            continue;
        }
        show(&status, &gaps, args.output, out)?;
        return Ok(match (well, args.wait) {
            (true, _) => ExitCode::SUCCESS,
            (false, false) => ExitCode::from(FINDING),
            (false, true) => {
                eprintln!("aplomb: not everything was ready in time");
                ExitCode::from(TIMED_OUT)
            }
        });
    }
}

/// Everything as it is now, and what could not be read.
async fn look(cluster: &ClusterClient, admins: &[String]) -> Result<(Overview, Vec<String>)> {
    let FoundOperators {
        admins,
        leases,
        mut gaps,
    } = find::operators(cluster, admins).await?;
    let mut readings = ScreenData {
        leases,
        ..ScreenData::default()
    };
    for admin in &admins {
        match told(admin).await {
            Ok(Some(status)) => readings.told.push(status),
            Ok(None) => gaps.push(format!(
                "{} has no /status.json: it is older than this program",
                admin.name()
            )),
            Err(error) => gaps.push(fault::line(&error)),
        }
    }
    objects(cluster, &mut readings, &mut gaps).await?;
    let now = aplomb::Clock::system().now();
    Ok((together(&readings, now), gaps))
}

async fn told(admin: &find::AdminClient) -> Result<Option<Overview>> {
    match admin.get("/status.json").await? {
        Some(value) => Ok(Some(serde_json::from_value(value)?)),
        None => Ok(None),
    }
}

/// Our objects of every namespace, or of one's own where one may not look further.
async fn objects(
    cluster: &ClusterClient,
    readings: &mut ScreenData,
    gaps: &mut Vec<String>,
) -> Result<()> {
    let mut refused = None;
    let mut known = 0;
    for resource in resources() {
        let base = format!("/apis/{}", resource.api_version());
        let plural = &resource.plural;
        let mut answer = list(cluster, &format!("{base}/{plural}")).await;
        if is(&answer, 403) && resource.namespaced {
            let namespace = &cluster.namespace;
            answer = list(cluster, &format!("{base}/namespaces/{namespace}/{plural}")).await;
        }
        match answer {
            Ok(objects) => {
                known += 1;
                readings.objects.put(&resource.kind, objects);
            }
            Err(kube::Error::Api(status)) if status.code == 404 => {
                refused = Some(kube::Error::Api(status));
            }
            Err(error @ kube::Error::Api(_)) if !is_stranger(&error) => {
                gaps.push(format!("{plural}: {}", fault::of_server(&error)));
                refused = Some(error);
            }
            Err(error) => return Err(error.into()),
        }
    }
    // Whoever sees nothing must not be told that all is well.
    match refused {
        Some(refused) if known == 0 => Err(refused.into()),
        _ => Ok(()),
    }
}

fn is<T>(answer: &kube::Result<T>, code: u16) -> bool {
    matches!(answer, Err(kube::Error::Api(status)) if status.code == code)
}

/// Whoever is not known sees nothing at all, which is no gap.
fn is_stranger(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 401)
}

async fn list(cluster: &ClusterClient, path: &str) -> kube::Result<Vec<Value>> {
    let request = http::Request::get(path).body(Vec::new());
    let request = request.map_err(kube::Error::HttpError)?;
    let answer: Value = cluster.client.request(request).await?;
    Ok(answer["items"].as_array().cloned().unwrap_or_default())
}

fn show(
    status: &Overview,
    gaps: &[String],
    output: StatusOutput,
    out: &OutputStream,
) -> Result<()> {
    match output {
        StatusOutput::Json => out.print(&json_text(&serde_json::to_value(status)?))?,
        StatusOutput::Table => {
            let sections = sections(status);
            let texts = sections
                .iter()
                .map(|lines| out.columns(&mut TableLayout::default(), lines));
            out.print(&texts.collect::<Vec<_>>().join("\n"))?;
        }
    }
    for gap in gaps {
        eprintln!("aplomb: not shown: {gap}");
    }
    Ok(())
}
