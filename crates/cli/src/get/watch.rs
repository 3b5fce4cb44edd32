//! `aplomb get --watch`: a row for each object that changes, until a signal. Misses and repeats nothing:
//! after a lost connection all objects are read again, and only new versions are printed.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::Result;
use futures::TryStreamExt;
use kube::Api;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, Event, watcher};
use serde_json::Value;

use super::Scope;
use super::print::{FoundObjects, ObjectPrinter};
use super::query::KindQuery;
use crate::cluster::ClusterClient;
use crate::error_text;

type Key = (String, String);

pub(super) async fn watch_objects(
    cluster: &ClusterClient,
    one: &KindQuery,
    scope: &Scope,
    found: Vec<FoundObjects>,
    printer: &mut ObjectPrinter<'_>,
) -> Result<ExitCode> {
    let shown = found.iter().flat_map(|it| &it.objects);
    let mut shown: BTreeMap<Key, String> = shown.map(object_identity).collect();
    let stream = watcher(api(cluster, one, scope), watch_config(one, scope)).default_backoff();
    let mut stream = std::pin::pin!(stream);
    let mut quiet = false;
    loop {
        let event = match stream.try_next().await {
            Ok(Some(event)) => event,
            Ok(None) => return Ok(ExitCode::SUCCESS),
            Err(error) => {
                // Once per lost connection.
                if !std::mem::replace(&mut quiet, true) {
                    let why = error_text::error_line(&error.into());
                    eprintln!("aplomb: watch failed, reconnecting: {why}");
                }
                continue;
            }
        };
        quiet = false;
        match event {
            Event::Apply(object) | Event::InitApply(object) => {
                let object = serde_json::to_value(&object)?;
                let (key, version) = object_identity(&object);
                if shown.insert(key, version.clone()).as_ref() != Some(&version) {
                    printer.print_changed(&one.resource, &object)?;
                }
            }
            Event::Delete(object) => {
                let object = serde_json::to_value(&object)?;
                shown.remove(&object_identity(&object).0);
                printer.print_changed(&one.resource, &object)?;
            }
            Event::Init | Event::InitDone => {}
        }
    }
}

fn object_identity(object: &Value) -> (Key, String) {
    let meta = &object["metadata"];
    let text = |key: &str| meta[key].as_str().unwrap_or_default().to_owned();
    ((text("namespace"), text("name")), text("resourceVersion"))
}

fn api(cluster: &ClusterClient, one: &KindQuery, scope: &Scope) -> Api<DynamicObject> {
    let it = &one.resource;
    let kind = GroupVersionKind::gvk(&it.group, &it.version, &it.kind);
    let resource = ApiResource::from_gvk_with_plural(&kind, &it.plural);
    let client = cluster.client.clone();
    match &scope.namespace {
        Some(namespace) if it.namespaced => Api::namespaced_with(client, namespace, &resource),
        _ => Api::all_with(client, &resource),
    }
}

fn watch_config(one: &KindQuery, scope: &Scope) -> Config {
    let mut config = Config::default();
    config.label_selector.clone_from(&scope.selector);
    let name = one.name.as_ref();
    config.field_selector = name.map(|name| format!("metadata.name={name}"));
    config
}
