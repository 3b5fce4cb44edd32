//! `aplomb trace KIND/NAME`: the history of one object. Reads everything about it, and prints it.

mod gather;

use std::process::ExitCode;

use anyhow::Result;
use aplomb_console::table::TableLayout;
use aplomb_console::trace::ObjectTrace;

use crate::args::{TraceArgs, TraceOutput};
use crate::cluster::ClusterClient;
use crate::find;
use crate::get::words;
use crate::out::{OutputStream, json_text};

/// The object does not exist, as opposed to a tool error (2).
const FINDING: u8 = 1;

pub(crate) async fn run(args: TraceArgs, out: &OutputStream) -> Result<ExitCode> {
    let wanted = words::one(&args.what.join("/"))?;
    let cluster = ClusterClient::of(&args.cluster).await?;
    let look = async {
        let Some(object) = gather::object(&cluster, &wanted).await? else {
            return Ok(None);
        };
        let found = find::operators(&cluster, &args.admin.admin).await?;
        Ok(Some(gather::evidence(&cluster, object, found).await?))
    };
    let Some(evidence) = cluster.within(look).await? else {
        eprintln!("{}", wanted.not_found());
        return Ok(ExitCode::from(FINDING));
    };
    let trace = ObjectTrace::of(&evidence, aplomb::Clock::system().now());
    match args.output {
        TraceOutput::Json => out.print(&json_text(&serde_json::to_value(&trace)?))?,
        TraceOutput::Text => out.print(&text(&trace, out))?,
    }
    for gap in &trace.gaps {
        eprintln!("aplomb: not shown: {gap}");
    }
    Ok(ExitCode::SUCCESS)
}

/// The sections of a trace, with the status of conditions colored.
fn text(trace: &ObjectTrace, out: &OutputStream) -> String {
    let sections = trace.sections();
    let texts = sections.iter();
    let texts = texts.map(|lines| out.columns(&mut TableLayout::default(), lines));
    texts.collect::<Vec<_>>().join("\n")
}
