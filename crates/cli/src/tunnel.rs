//! `aplomb tunnel`: lists tunnels and shows whether they work, from the status that the operator wrote;
//! deletes them on request.

mod describe;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use aplomb_api::tunnel::{Connector, HttpProxy};
use aplomb_console::table::{TableStyle, find_by_name};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, ResourceExt};

use crate::EXIT_FINDING;
use crate::args::{TunnelArgs, TunnelCommand, TunnelOutput};
use crate::cluster::get_json;
use crate::prerequisites;
use crate::run::load_config;

const GROUP: &str = "/apis/aplomb.dev/v1alpha1";

pub(crate) async fn run(args: TunnelArgs) -> Result<ExitCode> {
    let config = load_config(args.kubeconfig).await?;
    let namespace = args.namespace.unwrap_or_else(|| config.default_namespace.clone());
    let client = aplomb::client(config)?;
    prerequisites::check_server(&client).await?;
    match args.what {
        TunnelCommand::List { all_namespaces, output } => {
            let within = (!all_namespaces).then_some(namespace.as_str());
            print_tunnels(&client, within, output).await?;
            Ok(ExitCode::SUCCESS)
        }
        TunnelCommand::Status { name, output } => print_status(&client, &namespace, &name, output).await,
        TunnelCommand::Delete { name, connector } => delete_tunnel(&client, &namespace, &name, connector).await,
    }
}

async fn print_tunnels(client: &Client, namespace: Option<&str>, output: TunnelOutput) -> Result<()> {
    let path = match namespace {
        Some(namespace) => format!("{GROUP}/namespaces/{namespace}/httpproxies"),
        None => format!("{GROUP}/httpproxies"),
    };
    let answer = get_json(client, &path).await.context("cannot list tunnels")?;
    if output == TunnelOutput::Json {
        println!("{answer:#}");
        return Ok(());
    }
    let tunnels = answer["items"].as_array().cloned().unwrap_or_default();
    if tunnels.is_empty() {
        let scope = namespace.map_or_else(String::new, |n| format!(" in namespace {n}"));
        eprintln!("No tunnels found{scope}.");
        return Ok(());
    }
    let style = TableStyle {
        namespaces: namespace.is_none(),
        ..TableStyle::default()
    };
    let now = aplomb::Clock::system().now();
    for kind in find_by_name("httpproxies") {
        print!("{}", kind.build_table(&tunnels, now).to_text(&style));
    }
    Ok(())
}

async fn print_status(client: &Client, namespace: &str, name: &str, output: TunnelOutput) -> Result<ExitCode> {
    let proxies: Api<HttpProxy> = Api::namespaced(client.clone(), namespace);
    let Some(proxy) = proxies.get_opt(name).await.context("cannot read the tunnel")? else {
        return Ok(report_not_found(namespace, name));
    };
    let ready = describe::is_ready(&proxy);
    if output == TunnelOutput::Json {
        println!("{:#}", serde_json::to_value(&proxy)?);
    } else {
        let connectors: Api<Connector> = Api::namespaced(client.clone(), namespace);
        let mut found = Vec::new();
        for name in connector_names(&proxy) {
            let connector = connectors.get_opt(&name).await.context("cannot read the connector")?;
            found.push((name, connector));
        }
        let now = aplomb::Clock::system().now();
        print!("{}", describe::describe_tunnel(&proxy, &found, now));
    }
    Ok(match ready {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(EXIT_FINDING),
    })
}

async fn delete_tunnel(client: &Client, namespace: &str, name: &str, with_connector: bool) -> Result<ExitCode> {
    let proxies: Api<HttpProxy> = Api::namespaced(client.clone(), namespace);
    let Some(proxy) = proxies.get_opt(name).await.context("cannot read the tunnel")? else {
        return Ok(report_not_found(namespace, name));
    };
    print_deleted("httpproxy", name, proxies.delete(name, &DeleteParams::default()).await)?;
    if !with_connector {
        return Ok(ExitCode::SUCCESS);
    }
    let rest = proxies
        .list(&ListParams::default())
        .await
        .context("cannot list tunnels")?;
    let connectors: Api<Connector> = Api::namespaced(client.clone(), namespace);
    for connector in connector_names(&proxy) {
        let user = rest
            .iter()
            .find(|other| other.uid() != proxy.uid() && connector_names(other).contains(&connector));
        if let Some(user) = user {
            bail!(
                "connector {connector} is kept; httpproxy {} also uses it",
                user.name_any()
            );
        }
        let deleted = connectors.delete(&connector, &DeleteParams::default()).await;
        print_deleted("connector", &connector, deleted)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The connectors that a tunnel's rules name, without duplicates.
fn connector_names(proxy: &HttpProxy) -> Vec<String> {
    let backends = proxy.spec.rules.iter().flat_map(|rule| &rule.backends);
    let named = backends.filter_map(|backend| backend.connector.as_ref());
    let mut names: Vec<String> = named.map(|connector| connector.name.clone()).collect();
    names.sort();
    names.dedup();
    names
}

fn print_deleted<T>(kind: &str, name: &str, outcome: kube::Result<T>) -> Result<()> {
    match outcome {
        Ok(_) => println!("{kind} {name} deleted"),
        // It was already deleted.
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => return Err(error).context(format!("cannot delete {kind} {name}")),
    }
    Ok(())
}

fn report_not_found(namespace: &str, name: &str) -> ExitCode {
    eprintln!("aplomb: tunnel {name} not found in namespace {namespace}");
    ExitCode::from(EXIT_FINDING)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_connector_is_named_once_however_many_rules_use_it() {
        let to = |name: &str| json!({ "backends": [{ "connector": { "name": name } }] });
        let object = json!({
            "apiVersion": "aplomb.dev/v1alpha1", "kind": "HTTPProxy",
            "metadata": { "name": "web" },
            "spec": { "rules": [to("b"), to("a"), to("b"), {}] },
        });
        let proxy: HttpProxy = serde_json::from_value(object).expect("an HTTPProxy");
        assert_eq!(connector_names(&proxy), ["a", "b"]);
    }
}
