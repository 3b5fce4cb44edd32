//! `aplomb trace KIND/NAME`: the history of one object. Reads everything about it, and prints it.

mod gather;

use std::process::ExitCode;

use anyhow::Result;
use aplomb_console::table::TableLayout;
use aplomb_console::trace::ObjectTrace;

use crate::args::{TraceArgs, TraceOutput};
use crate::cluster::ClusterClient;
use crate::discovery;
use crate::get::query;
use crate::output::{OutputStream, json_text};

/// The object does not exist, as opposed to a tool error (2).
const EXIT_FINDING: u8 = 1;

pub(crate) async fn run(args: TraceArgs, out: &OutputStream) -> Result<ExitCode> {
    let wanted = query::parse_name(&args.what.join("/"))?;
    let cluster = ClusterClient::from_args(&args.cluster).await?;
    let look = async {
        let Some(object) = gather::read_object(&cluster, &wanted).await? else {
            return Ok(None);
        };
        let found = discovery::find_operators(&cluster, &args.admin.admin).await?;
        Ok(Some(gather::gather_inputs(&cluster, object, found).await?))
    };
    let Some(evidence) = cluster.with_timeout(look).await? else {
        eprintln!("{}", wanted.not_found());
        return Ok(ExitCode::from(EXIT_FINDING));
    };
    let trace = ObjectTrace::from_inputs(&evidence, aplomb::Clock::system().now());
    match args.output {
        TraceOutput::Json => out.print(&json_text(&serde_json::to_value(&trace)?))?,
        TraceOutput::Text => out.print(&format_trace(&trace, out))?,
    }
    for gap in &trace.gaps {
        eprintln!("aplomb: not shown: {gap}");
    }
    Ok(ExitCode::SUCCESS)
}

/// The sections of a trace, with the status of conditions colored.
fn format_trace(trace: &ObjectTrace, out: &OutputStream) -> String {
    let sections = trace.sections();
    let texts = sections.iter();
    let texts = texts.map(|lines| out.format_columns(&mut TableLayout::default(), lines));
    texts.collect::<Vec<_>>().join("\n")
}
