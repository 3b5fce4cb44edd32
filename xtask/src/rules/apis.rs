//! What may be called where: one way to lock, to write to the API server and to start a task.

use super::{Violation, matches, regex};
use crate::source::SourceFile;

/// Where objects are written without a controller's pass.
const WRITERS: [&str; 10] = [
    "crates/runtime/src/writer",
    "crates/runtime/src/events",
    "crates/runtime/src/leadership",
    "crates/tunnel-agent/src/lease",
    "crates/tunnel-agent/src/publish",
    "crates/tunnel-agent/src/register",
    "crates/cli/src/crds",
    "crates/cli/src/prerequisites",
    "crates/cli/src/tunnel",
    "crates/demo/",
];
const DOCUMENTED: [&str; 8] = [
    "crates/runtime",
    "crates/api",
    "testbed/apimachinery",
    "testbed/structured-merge",
    "testbed/cel",
    "testbed/apiserver",
    "testbed/simulation",
    "testbed/fake-services",
];

/// Every place in the product, tests and `allowed` paths apart, where `pattern` matches.
fn product(files: &[SourceFile], pattern: &str, allowed: &[&str], todo: &str) -> Vec<Violation> {
    let pattern = regex(pattern);
    let ours = files.iter().filter(|file| file.is_product());
    let ours = ours.filter(|file| !allowed.iter().any(|path| file.path.starts_with(path)));
    let found = ours.flat_map(|file| {
        matches(file, &file.code, &pattern)
            .into_iter()
            .map(move |it| (file, it))
    });
    found
        .map(|(file, (line, what))| Violation::new(file, line, format!("{what}: {todo}")))
        .collect()
}

pub(super) fn std_sync(files: &[SourceFile]) -> Vec<Violation> {
    let pattern = r"std::sync::(?:\{[^}]*?\b)?(Mutex|RwLock)\b";
    product(files, pattern, &[], "use parking_lot, which has no poison")
}

pub(super) fn kube_params(files: &[SourceFile]) -> Vec<Violation> {
    let pattern = r"\b((?:Patch|Post|Delete)Params)(?:::|\s*\{)";
    product(files, pattern, &WRITERS, "write through the runtime's writer")
}

pub(super) fn spawn(files: &[SourceFile]) -> Vec<Violation> {
    let pattern = r"\b(tokio::spawn|task::spawn|spawn_blocking|spawn_local|thread::spawn)\b\(";
    product(
        files,
        pattern,
        &["crates/runtime/src/tasks"],
        "start it with the runtime's tasks",
    )
}

pub(super) fn missing_docs(files: &[SourceFile]) -> Vec<Violation> {
    let roots = DOCUMENTED.map(|folder| format!("{folder}/src/lib.rs"));
    let roots = files.iter().filter(|file| roots.contains(&file.path));
    let bare = roots.filter(|file| !file.code.contains("missing_docs"));
    bare.map(|file| Violation::new(file, 1, "add #![warn(missing_docs)]"))
        .collect()
}
