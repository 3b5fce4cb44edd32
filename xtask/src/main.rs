//! `cargo xtask`: the repository's own commands. `make` calls the same scripts under its own words.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::{Command, ExitCode};

use xtask::source::load;
use xtask::tidy::{BASELINE, new_baseline, run};

const USAGE: &str = "\
cargo xtask tidy [--write-baseline]   check how files are kept, named and written
cargo xtask charts [--check]          write deploy/ and charts/aplomb-crds from the chart and the types
cargo xtask docs [PAGE...]            run the command blocks of the documentation
cargo xtask release                   build the binary that ships and check what is in it";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let root = xtask::root();
    let done = match args.split_first() {
        Some((verb, rest)) if verb == "tidy" => tidy(&root, rest),
        Some((verb, rest)) if verb == "charts" || verb == "docs" => script(&root, &format!("tools/make/{verb}"), rest),
        Some((verb, [])) if verb == "release" => script(&root, "tools/make/symbols", &["--release".to_owned()]),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn tidy(root: &Path, args: &[String]) -> Result<bool, String> {
    let files = load(root)?;
    let path = root.join(BASELINE);
    let baseline = std::fs::read_to_string(&path).unwrap_or_default();
    match args {
        [] => {
            let lines = run(&files, &baseline);
            lines.iter().for_each(|line| println!("{line}"));
            Ok(lines.is_empty())
        }
        [flag] if flag == "--write-baseline" => {
            let written = std::fs::write(&path, new_baseline(&files, &baseline));
            written.map(|()| true).map_err(|error| format!("{BASELINE}: {error}"))
        }
        _ => Err(USAGE.to_owned()),
    }
}

fn script(root: &Path, path: &str, args: &[String]) -> Result<bool, String> {
    let ended = Command::new(root.join(path)).args(args).current_dir(root).status();
    ended
        .map(|status| status.success())
        .map_err(|error| format!("{path}: {error}"))
}
