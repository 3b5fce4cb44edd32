//! `aplomb get`, the real binary, on `aplomb box`: it prints what kubectl prints.

#[path = "common/boxed.rs"]
mod boxed;
#[path = "get/fixtures.rs"]
mod fixtures;

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use self::boxed::{Boxed, err, has_kubectl, out};

/// A box with two objects of every kind.
fn filled() -> Boxed {
    let server = Boxed::with_kinds(&[]);
    let mut all = Vec::new();
    for (_, object, _) in fixtures::objects() {
        all.extend([object.clone(), fixtures::bare(&object)]);
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
fn same(server: &Boxed, words: &[&str]) {
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
    let server = filled();
    let plurals: Vec<&str> = fixtures::objects().into_iter().map(|it| it.0).collect();
    assert_eq!(plurals.len(), aplomb_api::definitions().len());
    for plural in &plurals {
        same(&server, &[plural]);
        same(&server, &[plural, "-A"]);
        same(&server, &[plural, "-o", "wide", "--no-headers"]);
    }
    same(&server, &[&plurals.join(",")]);
    same(&server, &["hp,conn", "-A", "-o", "wide"]);
    same(&server, &["hp", "app", "bare-one"]);
    same(&server, &["seg", "-l", "team=blue"]);
    same(&server, &["hp/app", "seg/web"]);
    for format in ["json", "name"] {
        same(&server, &["hp", "-o", format]);
        same(&server, &["seg", "web", "-o", format]);
        same(&server, &["conn,cwp", "-o", format]);
    }
    for words in [&["hp", "-o", "yaml"][..], &["seg", "web", "-o", "yaml"]] {
        let args: Vec<&str> = ["get"].iter().chain(words).copied().collect();
        let read = |text: &str| serde_saphyr::from_str::<Value>(text).expect("YAML");
        assert_eq!(
            read(&out(&server.aplomb(&args))),
            read(&server.kubectl(&args, ""))
        );
    }
    everything(&server);
}

/// Without arguments, all kinds that have objects.
fn everything(server: &Boxed) {
    let text = out(&server.aplomb(&["get"]));
    let tables = text.trim_end().split("\n\n").count();
    assert_eq!(tables, aplomb_api::definitions().len(), "{text}");
    assert!(text.contains("\nhttpproxy.aplomb.dev/app "), "{text}");
    server.kubectl(&["delete", "connectorclasses", "--all"], "");
    let text = out(&server.aplomb(&["get", "all"]));
    assert!(!text.contains("connectorclass."), "{text}");
}

#[test]
fn what_is_not_there_is_a_finding_in_the_words_of_kubectl() {
    let server = Boxed::with_kinds(&[]);
    let output = server.aplomb(&["get", "hp", "missing"]);
    assert_eq!(output.status.code(), Some(1));
    let said = "Error from server (NotFound): httpproxies.aplomb.dev \"missing\" not found\n";
    assert_eq!(
        (out(&output), err(&output)),
        (String::new(), said.to_owned())
    );
    for (words, said) in [
        (
            &["get", "hp"][..],
            "No resources found in default namespace.\n",
        ),
        (&["get", "hp", "-A"], "No resources found\n"),
        (&["get", "seg"], "No resources found\n"),
        (
            &["get", "-n", "team"],
            "No resources found in team namespace.\n",
        ),
    ] {
        let output = server.aplomb(words);
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(
            (out(&output), err(&output)),
            (String::new(), said.to_owned())
        );
    }
}

#[test]
fn a_watch_prints_the_row_of_what_changed() {
    if !has_kubectl() {
        return;
    }
    let server = filled();
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
fn a_reader_that_has_had_enough_is_no_error() {
    if !has_kubectl() {
        return;
    }
    let server = filled();
    let mut asked = server
        .command(&["get", "-o", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    drop(asked.stdout.take());
    let output = asked.wait_with_output().expect("it ends");
    assert_eq!(
        (output.status.code(), err(&output)),
        (Some(0), String::new())
    );
}

#[test]
fn colours_are_for_terminals_unless_told_otherwise() {
    if !has_kubectl() {
        return;
    }
    let server = filled();
    let colours = |args: &[&str], env: &[(&str, &str)]| {
        let mut command = server.command(args);
        command.env_remove("NO_COLOR").envs(env.iter().copied());
        out(&command.output().expect("it runs")).contains('\u{1b}')
    };
    assert!(!colours(&["get", "hp"], &[]));
    assert!(colours(
        &["get", "hp", "--color", "always"],
        &[("NO_COLOR", "1")]
    ));
    assert!(colours(&["get", "hp"], &[("CLICOLOR_FORCE", "1")]));
    assert!(!colours(
        &["get", "hp"],
        &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]
    ));
    assert!(!colours(
        &["get", "hp", "--color", "never"],
        &[("CLICOLOR_FORCE", "1")]
    ));
}
