//! The binary that ships defines none of the interposed symbols.
//!
//! Needs the binary, so it is ignored by default: `tools/make/symbols` builds it and names it in
//! `APLOMB_BINARY` (default: `target/release/aplomb`). Needs `nm` of binutils.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const INTERPOSED: [&str; 3] = ["clock_gettime", "getentropy", "getrandom"];

fn nm(flags: &[&str], binary: &Path) -> String {
    let output = Command::new("nm")
        .args(flags)
        .arg(binary)
        .output()
        .expect("nm (binutils) runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("symbol names are text")
}

/// Those of the three that `binary` defines, in its full or its dynamic symbol table. A stripped
/// binary has only the latter; a definition that hides libc's is always in it.
fn defined_in(binary: &Path) -> Vec<&'static str> {
    let mut table = nm(&["-P", "--defined-only"], binary);
    table.push_str(&nm(&["-P", "--defined-only", "--dynamic"], binary));
    let names: Vec<&str> = table
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    INTERPOSED.into_iter().filter(|symbol| names.contains(symbol)).collect()
}

fn release_binary() -> PathBuf {
    std::env::var_os("APLOMB_BINARY").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/release/aplomb"),
        PathBuf::from,
    )
}

#[test]
fn this_test_binary_defines_all_three() {
    drop(aplomb_virtual_time::install(
        1,
        Duration::ZERO,
        Box::new(|| Duration::ZERO),
    ));
    let this = std::env::current_exe().expect("a running test has a path");
    assert_eq!(defined_in(&this), INTERPOSED, "otherwise the check below could not see");
    let dynamic = nm(&["-P", "--defined-only", "--dynamic"], &this);
    assert!(dynamic.contains("getrandom T"), "{dynamic}");
}

#[test]
#[ignore = "needs the release binary: run by make test"]
fn the_release_binary_defines_none() {
    let binary = release_binary();
    assert!(binary.is_file(), "no binary at {}: make build", binary.display());
    assert_eq!(defined_in(&binary), Vec::<&str>::new(), "{}", binary.display());
}
