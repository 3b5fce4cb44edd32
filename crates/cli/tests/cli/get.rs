//! `aplomb get`, the real binary, on `aplomb box`: it prints what kubectl prints.

mod fixtures;

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::boxed::{Boxed, err, has_kubectl, out};

/// A box with two objects of every kind.
fn start_with_objects() -> Boxed {
    let server = Boxed::with_kinds(&[]);
    let mut all = Vec::new();
    for (_, object, _) in fixtures::objects() {
        all.extend([object.clone(), fixtures::without_status(&object)]);
    }
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": all });
    server.kubectl(&["create", "-f", "-"], &list.to_string());
    for (plural, object, status) in fixtures::objects() {
        if status != Value::Null {
            let name = object["metadata"]["name"].as_str().expect("a name");
            let patch = json!({ "status": status }).to_string();
            let words = [
                "patch",
                plural,
                name,
                "--subresource=status",
                "--type=merge",
                "-p",
                &patch,
            ];
            server.kubectl(&words, "");
        }
    }
    server
}

/// Ages change between two commands, so ours runs before and after kubectl.
fn check_same(server: &Boxed, words: &[&str]) {
    let ours = |_| {
        let args: Vec<&str> = ["get"].iter().chain(words).copied().collect();
        let output = server.aplomb(&args);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", err(&output));
        out(&output)
    };
    let mut last = (String::new(), String::new());
    for _ in 0..5 {
        let before = ours(());
        let args: Vec<&str> = ["get"].iter().chain(words).copied().collect();
        let theirs = server.kubectl(&args, "");
        if theirs == before || theirs == ours(()) {
            return;
        }
        last = (theirs, before);
    }
    panic!("{words:?}\nkubectl:\n{}\naplomb:\n{}", last.0, last.1);
}

#[test]
fn every_kind_is_printed_as_kubectl_prints_it() {
    if !has_kubectl() {
        return;
    }
    let server = start_with_objects();
    let plurals: Vec<&str> = fixtures::objects().into_iter().map(|it| it.0).collect();
    assert_eq!(plurals.len(), aplomb_api::definitions().len());
    for plural in &plurals {
        check_same(&server, &[plural]);
        check_same(&server, &[plural, "-A"]);
        check_same(&server, &[plural, "-o", "wide", "--no-headers"]);
    }
    check_same(&server, &[&plurals.join(",")]);
    check_same(&server, &["hp,conn", "-A", "-o", "wide"]);
    check_same(&server, &["hp", "app", "bare-one"]);
    check_same(&server, &["seg", "-l", "team=blue"]);
    check_same(&server, &["hp/app", "seg/web"]);
    for format in ["json", "name"] {
        check_same(&server, &["hp", "-o", format]);
        check_same(&server, &["seg", "web", "-o", format]);
        check_same(&server, &["conn,cwp", "-o", format]);
    }
    for words in [&["hp", "-o", "yaml"][..], &["seg", "web", "-o", "yaml"]] {
        let args: Vec<&str> = ["get"].iter().chain(words).copied().collect();
        let read = |text: &str| serde_saphyr::from_str::<Value>(text).expect("YAML");
        assert_eq!(read(&out(&server.aplomb(&args))), read(&server.kubectl(&args, "")));
    }
    check_all(&server);
}

/// Without arguments, all kinds that have objects.
fn check_all(server: &Boxed) {
    let text = out(&server.aplomb(&["get"]));
    let tables = text.trim_end().split("\n\n").count();
    assert_eq!(tables, aplomb_api::definitions().len(), "{text}");
    assert!(text.contains("\nhttpproxy.aplomb.dev/app "), "{text}");
    server.kubectl(&["delete", "connectorclasses", "--all"], "");
    let text = out(&server.aplomb(&["get", "all"]));
    assert!(!text.contains("connectorclass."), "{text}");
}

#[test]
fn a_missing_object_is_a_finding_worded_like_kubectl() {
    let server = Boxed::with_kinds(&[]);
    let output = server.aplomb(&["get", "hp", "missing"]);
    assert_eq!(output.status.code(), Some(1));
    let said = "Error from server (NotFound): httpproxies.aplomb.dev \"missing\" not found\n";
    assert_eq!((out(&output), err(&output)), (String::new(), said.to_owned()));
    for (words, said) in [
        (&["get", "hp"][..], "No resources found in default namespace.\n"),
        (&["get", "hp", "-A"], "No resources found\n"),
        (&["get", "seg"], "No resources found\n"),
        (&["get", "-n", "team"], "No resources found in team namespace.\n"),
    ] {
        let output = server.aplomb(words);
        assert_eq!(output.status.code(), Some(0));
        assert_eq!((out(&output), err(&output)), (String::new(), said.to_owned()));
    }
}

#[test]
fn a_watch_prints_the_changed_row() {
    if !has_kubectl() {
        return;
    }
    let server = start_with_objects();
    let mut watching = server
        .command(&["get", "hp", "--watch"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(watching.stdout.take().expect("its output")).lines();
    let mut next = || lines.next().expect("a line").expect("text");
    let columns: Vec<String> = [next(), next(), next()].into_iter().collect();
    assert!(
        columns[0].starts_with("NAME ") && columns[1].starts_with("app "),
        "{columns:?}"
    );
    let patch = json!({ "status": { "hostname": "other.example.com" } }).to_string();
    let words = [
        "patch",
        "hp",
        "bare-one",
        "--subresource=status",
        "--type=merge",
        "-p",
        &patch,
    ];
    server.kubectl(&words, "");
    let row = next();
    assert!(row.starts_with("bare-one   other.example.com "), "{row}");
    server.kubectl(&["delete", "hp", "bare-one"], "");
    let row = next();
    assert!(row.starts_with("bare-one "), "{row}");
    watching.kill().expect("it runs");
    watching.wait().expect("it ends");
}

#[test]
fn a_closed_pipe_is_no_error() {
    if !has_kubectl() {
        return;
    }
    let server = start_with_objects();
    let mut asked = server
        .command(&["get", "-o", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    drop(asked.stdout.take());
    let output = asked.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), err(&output)), (Some(0), String::new()));
}

#[test]
fn colors_are_for_terminals_by_default() {
    if !has_kubectl() {
        return;
    }
    let server = start_with_objects();
    let colours = |args: &[&str], env: &[(&str, &str)]| {
        let mut command = server.command(args);
        command.env_remove("NO_COLOR").envs(env.iter().copied());
        out(&command.output().expect("it runs")).contains('\u{1b}')
    };
    assert!(!colours(&["get", "hp"], &[]));
    assert!(colours(&["get", "hp", "--color", "always"], &[("NO_COLOR", "1")]));
    assert!(colours(&["get", "hp"], &[("CLICOLOR_FORCE", "1")]));
    assert!(!colours(&["get", "hp"], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
    assert!(!colours(&["get", "hp", "--color", "never"], &[("CLICOLOR_FORCE", "1")]));
}
