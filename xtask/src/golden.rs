//! The names that others rely on, read from the sources, one per line: each file of `xtask/golden` holds one kind.
//!
//! The lists depend on no name of a type, module or file, so that renaming those changes none of them.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::serde_names::shapes;
use crate::source::{SourceFile, end_of_braces};

type Names = BTreeSet<String>;
type Derive = fn(&[SourceFile]) -> Names;

const UPDATE: &str = "say so in CHANGELOG.md and run UPDATE_GOLDEN=1 cargo test -p xtask --test golden";

/// Each list and how it is derived. `commands.txt` is written by a test of the crate that defines the commands.
pub const LISTS: [(&str, Derive); 9] = [
    ("crds.txt", definitions),
    ("json.txt", shapes),
    ("managers.txt", identifiers),
    ("make.txt", make_words),
    ("metrics.txt", metrics),
    ("reasons.txt", reasons),
    ("label_values.txt", label_values),
    ("values.txt", chart_values),
    ("variables.txt", variables),
];

/// Each name that a golden file lacks (`+name`) or has too much (`-name`), behind the path of the file.
pub fn differences(files: &[SourceFile]) -> Vec<String> {
    let mut lines = Vec::new();
    for (list, derive) in LISTS {
        let path = format!("xtask/golden/{list}");
        let golden = files.iter().filter(|file| file.path == path);
        for golden in golden.map(|file| file.text.lines().map(str::to_owned).collect::<Names>()) {
            let names = derive(files);
            let gone = golden.difference(&names).map(|name| format!("-{name}"));
            let new = names.difference(&golden).map(|name| format!("+{name}"));
            lines.extend(gone.chain(new).map(|name| {
                format!("{path}:1: frozen-names: {name}: keep the name; if the change is meant, {UPDATE}")
            }));
        }
    }
    lines
}

/// What `pattern` finds in `text`: its first group.
fn found(pattern: &Regex, text: &str) -> Vec<String> {
    let captures = pattern.captures_iter(text);
    captures.map(|captures| captures[1].to_owned()).collect()
}

/// What `pattern` finds in the sources of the product: no comment, no test, no log line.
fn in_product(files: &[SourceFile], pattern: &str) -> Names {
    let pattern = Regex::new(pattern).expect("it is fixed");
    let product = files.iter().filter(|file| file.is_product());
    product.flat_map(|file| found(&pattern, &without_logs(file))).collect()
}

/// The literals stay, apart from those of log lines, attributes and what is printed for debugging.
fn without_logs(file: &SourceFile) -> String {
    static LOG: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"\b(?:trace|debug|info|warn|error|eprintln|panic|assert)!\s*(\()|\b(?:expect|debug_struct|debug_tuple)(\()|(?m:^)\s*f\.write_str(\()|#!?(\[)")
            .expect("it is fixed")
    });
    let mut kept = String::new();
    let mut at = 0;
    for captures in LOG.captures_iter(&file.code) {
        let Some(open) = captures.iter().skip(1).flatten().next() else {
            continue;
        };
        if open.start() >= at {
            kept.push_str(&file.uncommented[at..open.start()]);
            at = end_of_braces(&file.code, open.start());
            let lines = file.code[open.start()..at].matches('\n').count();
            kept.push_str(&"\n".repeat(lines));
        }
    }
    kept.push_str(&file.uncommented[at..]);
    file.production(&kept).map(|(_, line)| format!("{line}\n")).collect()
}

/// Condition types and reasons, reasons and actions of Events, kinds: every literal that is one capitalized word.
fn reasons(files: &[SourceFile]) -> Names {
    in_product(files, r#"[^\w]"([A-Z]\w*[a-z]\w*)""#)
}

/// What the variants of an enum are shown as: in label values, in JSON, on screens.
fn label_values(files: &[SourceFile]) -> Names {
    in_product(files, r#"=>\s*(?:Some\()?"([a-z][a-z_-]*)""#)
}

/// Environment variables, those of flags apart, and exit codes.
fn variables(files: &[SourceFile]) -> Names {
    let mut names = in_product(files, r#""((?:[A-Z][A-Z0-9]*_)+[A-Z0-9]+)""#);
    let pattern = Regex::new(r#""((?:BOX|APLOMB)_[A-Z_]+)""#).expect("it is fixed");
    names.extend(in_testbed(files, &pattern));
    let codes = Regex::new(r"const [A-Z_]+: u8 = ([0-9]+);").expect("it is fixed");
    let cli = files.iter().filter(|file| file.path.starts_with("crates/cli/src/"));
    let codes = cli.flat_map(|file| found(&codes, &file.code));
    names.extend(codes.map(|code| format!("exit code {code}")));
    names
}

fn in_testbed(files: &[SourceFile], pattern: &Regex) -> Names {
    let testbed = files
        .iter()
        .filter(|file| file.path.starts_with("testbed/") && file.is_rust());
    let lines = testbed.flat_map(|file| file.production(&file.uncommented));
    lines.flat_map(|(_, line)| found(pattern, line)).collect()
}

/// Field managers, leases, labels and annotations, headers, protocols, paths of HTTP.
fn identifiers(files: &[SourceFile]) -> Names {
    let named = in_product(
        files,
        r#""((?:[A-Za-z0-9./{}-]*aplomb[A-Za-z0-9./:{}-]*|(?:x|egress|tunnel|coder|gateway)-[a-z0-9./-]+|/(?:[a-z0-9_.{}*-]+/?)+))""#,
    );
    // What stands in braces is the name of a variable.
    let variable = Regex::new(r"\{\w*\}").expect("it is fixed");
    let named = named.iter().map(|name| variable.replace_all(name, "{}").into_owned());
    let mut names: Names = named.collect();
    let pattern = Regex::new(r#""(/_sim[^"]*|aplomb-[a-z-]+)""#).expect("it is fixed");
    names.extend(in_testbed(files, &pattern));
    let route = Regex::new(r"\(&Method::([A-Z]+, \[[^\]]*)\]").expect("it is fixed");
    let segment = Regex::new(r#""([^"]*)"|\w+"#).expect("it is fixed");
    for route in in_testbed(files, &route) {
        let segments = segment
            .captures_iter(&route)
            .map(|it| it.get(1).map_or("{}", |it| it.as_str()));
        let path: Vec<&str> = segments.skip(1).collect();
        let method = route.split(',').next().unwrap_or_default();
        names.insert(format!("route {method} /{}", path.join("/")));
    }
    names
}

fn make_words(files: &[SourceFile]) -> Names {
    let makefile = files.iter().filter(|file| file.path == "Makefile");
    let pattern = Regex::new(r"(?m)^([a-z0-9-]+):").expect("it is fixed");
    makefile.flat_map(|file| found(&pattern, &file.text)).collect()
}

/// From the page that is held to the code: the name, type and labels of each metric, and the values it names.
fn metrics(files: &[SourceFile]) -> Names {
    let page = files.iter().filter(|file| file.path == "docs/metrics.md");
    let rows = page.flat_map(|file| file.text.lines());
    let mut names = Names::new();
    for row in rows.filter(|row| row.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        if let [_, name, kind, labels, what, ..] = cells[..] {
            let name = name.trim_matches('`');
            names.insert(format!("{name} {kind} {labels}"));
            let values = what.split('`').skip(1).step_by(2);
            names.extend(values.map(|value| format!("{name} value {value}")));
        }
    }
    names
}

/// The paths of all values of the charts.
fn chart_values(files: &[SourceFile]) -> Names {
    let charts = files.iter().filter(|file| file.path.ends_with("/values.yaml"));
    let mut names = Names::new();
    for file in charts {
        for document in documents(file) {
            walk_values(&document, file.path.trim_end_matches("/values.yaml"), &mut names);
        }
    }
    names
}

fn walk_values(value: &Value, path: &str, names: &mut Names) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, field) in fields {
                walk_values(field, &format!("{path}.{name}"), names);
            }
        }
        _ => {
            names.insert(path.to_owned());
        }
    }
}

fn documents(file: &SourceFile) -> Vec<Value> {
    serde_saphyr::from_multiple(&file.text).unwrap_or_else(|error| panic!("{}: {error}", file.path))
}

/// Kinds, names, columns and fields of our definitions; those of the Gateway API are pinned by their version.
fn definitions(files: &[SourceFile]) -> Names {
    let ours = |file: &&SourceFile| {
        file.path.starts_with("charts/aplomb-crds/definitions/") && !file.path.ends_with("gateway-api.yaml")
    };
    let mut names = Names::new();
    for document in files.iter().filter(ours).flat_map(documents) {
        let spec = &document["spec"];
        let kind = spec["names"]["kind"].as_str().unwrap_or_default();
        for key in ["group", "scope"] {
            names.insert(format!("{kind} {key} {}", text(&spec[key])));
        }
        for key in ["categories", "plural", "shortNames", "singular"] {
            names.insert(format!("{kind} {key} {}", text(&spec["names"][key])));
        }
        for version in spec["versions"].as_array().into_iter().flatten() {
            let kind = format!("{kind} {}", text(&version["name"]));
            names.insert(format!("{kind} subresources {}", text(&version["subresources"])));
            for column in version["additionalPrinterColumns"].as_array().into_iter().flatten() {
                let rest = ["type", "priority", "jsonPath"].map(|key| text(&column[key]));
                names.insert(format!("{kind} column {} {}", text(&column["name"]), rest.join(" ")));
            }
            fields(&version["schema"]["openAPIV3Schema"], &kind, false, &mut names);
        }
    }
    names
}

/// One line for each field: its type and format, whether it is required, its values.
fn fields(schema: &Value, path: &str, is_required: bool, names: &mut Names) {
    let mut line = path.to_owned();
    for key in ["type", "format", "enum"].iter().filter(|key| !schema[**key].is_null()) {
        line.push_str(&format!(" {}", text(&schema[*key])));
    }
    if is_required {
        line.push_str(" required");
    }
    names.insert(line);
    let required = schema["required"].as_array();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let is_required = required.is_some_and(|all| all.iter().any(|it| it == name.as_str()));
        let separator = if path.contains('.') { "." } else { " ." };
        fields(field, &format!("{path}{separator}{name}"), is_required, names);
    }
    for (key, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
        if schema[key].is_object() {
            fields(&schema[key], &format!("{path}{mark}"), false, names);
        }
    }
}

/// A value on one line, without quotes where it is a string.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
