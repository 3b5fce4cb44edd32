//! Kubeconfigs with one error each, made from a valid one.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::boxed::Boxed;

/// The box's kubeconfig, changed.
pub(crate) fn edited(server: &Boxed, name: &str, change: impl FnOnce(&mut Value)) -> String {
    let right = std::fs::read_to_string(server.kubeconfig()).expect("a kubeconfig");
    let mut value: Value = serde_saphyr::from_str(&right).expect("YAML");
    change(&mut value);
    write_kubeconfig(server, name, &value.to_string())
}

/// A kubeconfig for another server at `address`.
pub(crate) fn with_server(server: &Boxed, name: &str, address: &str) -> String {
    edited(server, name, |it| {
        it["clusters"][0]["cluster"]["server"] = json!(address)
    })
}

/// A user without rights.
pub(crate) fn with_unknown_user(server: &Boxed) -> String {
    edited(server, "no-rights", |it| {
        it["users"][0]["user"]["as"] = json!("no-rights")
    })
}

/// An unknown token.
pub(crate) fn with_unauthorized_user(server: &Boxed) -> String {
    edited(server, "stranger", |it| {
        it["users"][0]["user"]["token"] = json!("not-a-token")
    })
}

/// A file with this text.
pub(crate) fn write_kubeconfig(server: &Boxed, name: &str, text: &str) -> String {
    let file: PathBuf = server.dir().join(name);
    std::fs::write(&file, text).expect("a file");
    file.to_str().expect("a path").to_owned()
}
