//! The processes of a server: which they are, and how they rest while another server is measured.

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

/// These processes and all they started.
///
/// # Errors
/// When one has ended.
pub(super) fn family(processes: &[u32]) -> Result<Vec<u32>> {
    let mut all = Vec::new();
    let mut open = processes.to_vec();
    while let Some(process) = open.pop() {
        let children = read(&format!("/proc/{process}/task/{process}/children"))?;
        open.extend(children.split_whitespace().filter_map(number));
        all.push(process);
    }
    Ok(all)
}

/// Those of them that do the work. The shells that wait for a program to end, and end it when its
/// owner has gone, must go on waiting.
///
/// # Errors
/// When one has ended.
pub(super) fn programs(processes: &[u32]) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    for process in family(processes)? {
        if read(&format!("/proc/{process}/comm"))?.trim() != "sh" {
            found.push(process);
        }
    }
    Ok(found)
}

/// Programs that do nothing until this is dropped.
///
/// A Go program collects its garbage and etcd writes its pages after the request that made them is
/// answered. On a shared core that would be counted as the time of whoever is asked next; stopped, they
/// do it when it is their turn again.
#[must_use = "they go on when this is dropped"]
#[derive(Debug)]
pub struct Resting<'a>(&'a [u32]);

impl<'a> Resting<'a> {
    /// Stops them.
    ///
    /// # Errors
    /// When one has ended.
    pub fn new(programs: &'a [u32]) -> Result<Self> {
        let resting = Self(programs);
        for program in programs {
            send(*program, Signal::STOP).with_context(|| format!("stopping process {program}"))?;
        }
        Ok(resting)
    }
}

impl Drop for Resting<'_> {
    fn drop(&mut self) {
        for program in self.0 {
            // One that has ended is found out by the next request to it.
            let _ = send(*program, Signal::CONT);
        }
    }
}

fn send(program: u32, signal: Signal) -> Result<()> {
    let id = i32::try_from(program).ok().and_then(Pid::from_raw);
    Ok(kill_process(id.context("no id of a process")?, signal)?)
}

pub(super) fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("reading {path}"))
}

fn number(text: &str) -> Option<u32> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn state(process: u32) -> String {
        let status = read(&format!("/proc/{process}/status")).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("State:"));
        line.and_then(|line| line.split_whitespace().next())
            .expect("it has a state")
            .to_owned()
    }

    /// What a shell runs, once both have become what they are: a new process has the name of its parent.
    fn program_of(shell: u32) -> u32 {
        loop {
            match programs(&[shell]).unwrap_or_default().as_slice() {
                [only] if *only != shell => return *only,
                _ => std::thread::yield_now(),
            }
        }
    }

    #[test]
    fn programs_rest_and_go_on_and_the_shell_that_keeps_them_does_not_rest() {
        let mut shell = Command::new("/bin/sh")
            .args(["-c", "cat; true"])
            .stdin(Stdio::piped())
            .spawn()
            .expect("there is a shell");
        let programs = [program_of(shell.id())];
        {
            let _resting = Resting::new(&programs).expect("it runs");
            while state(programs[0]) != "T" {
                std::thread::yield_now();
            }
            assert_ne!(state(shell.id()), "T");
        }
        drop(shell.stdin.take());
        assert!(shell.wait().expect("it was started here").success());
    }
}
