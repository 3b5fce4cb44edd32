//! Where a bench runs: client and server on one core, one after the other.
//!
//! With a core each, most of a request to the box is the time an idle core takes to wake, which says
//! nothing about either server and differs from machine to machine. The real server loses nothing by
//! it: one request at a time keeps one core busy.

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Keeps this thread, and every process it starts, on one core.
///
/// # Errors
/// When the system does not let it.
pub fn share_one_core() -> Result<()> {
    let allowed = sched_getaffinity(None).context("asking for the cores of this process")?;
    let first = (0..CpuSet::MAX_CPU).find(|core| allowed.is_set(*core));
    let mut one = CpuSet::new();
    one.set(first.context("this process may run on no core")?);
    sched_setaffinity(None, &one).context("staying on one core")
}
