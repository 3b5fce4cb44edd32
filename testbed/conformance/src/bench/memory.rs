//! What a server's processes keep in memory, as the kernel counts it.

use anyhow::{Context, Result};

use super::processes::{family, read};

/// Resident memory before and after objects were stored.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// Bytes of a server that holds nothing of ours.
    pub before: u64,
    /// Bytes once the objects are there.
    pub after: u64,
}

impl Memory {
    /// What came with the objects.
    #[must_use]
    pub fn grown(&self) -> u64 {
        self.after.saturating_sub(self.before)
    }
}

/// Resident bytes of these processes and of all they started.
///
/// # Errors
/// When one has ended.
pub fn resident(processes: &[u32]) -> Result<u64> {
    let mut total = 0;
    for process in family(processes)? {
        let status = read(&format!("/proc/{process}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line
            .and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok())
            .with_context(|| format!("process {process} has no VmRSS"))?;
        total += kilobytes * 1024;
    }
    Ok(total)
}
