//! The servers the cases run on: the box, and the real kube-apiserver.
//!
//! A case knows neither; it gets clients and a few levers that both sides have.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use futures::future::BoxFuture;
use kube::Client;
use serde_json::Value;

use crate::answer::Answer;
use crate::case_run::ask;
use crate::faults::ServerFault;

/// What a case may ask of a server beyond requests.
pub trait Server: Send + Sync {
    /// `box` or `real`.
    fn name(&self) -> &'static str;

    /// A client of an administrator (group `system:masters`), without retries.
    fn client(&self) -> Client;

    /// A client of user `restricted`, who has no rights of their own.
    fn restricted(&self) -> Client;

    /// A client whose token nobody knows.
    fn stranger(&self) -> Client;

    /// The administrator's bearer token, for [`Server::connect`].
    fn token(&self) -> String;

    /// Forgets all history older than `revision`.
    fn compact(&self, revision: u64) -> BoxFuture<'_, Result<()>>;

    /// What a client is answered while a server of this kind is in a trouble.
    fn in_trouble(&self, trouble: ServerFault) -> BoxFuture<'_, Result<Answer>>;

    /// A new connection to the port it serves on, for bytes no client would send.
    fn connect(&self) -> BoxFuture<'_, Result<Connection>>;
}

/// A byte stream to a server, TLS already done.
pub type Connection = Box<dyn Stream>;

/// Both directions of a byte stream.
pub trait Stream: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin {}
impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin> Stream for T {}

/// The two flavours of one side: without controllers, and with garbage collector and namespace
/// controller.
#[derive(Clone)]
pub struct Side {
    /// Nothing happens on it but requests.
    pub plain: Arc<dyn Server>,
    /// Deletions are followed up.
    pub collected: Arc<dyn Server>,
}

/// Installs the custom resources the cases share and waits until they are served.
///
/// # Errors
/// When the server refuses them.
pub async fn install_fixtures(server: &dyn Server) -> Result<()> {
    install_fixtures_of(&server.client()).await
}

/// Does the same for any server a client talks to.
///
/// # Errors
/// When the server refuses them.
pub async fn install_fixtures_of(client: &Client) -> Result<()> {
    for text in [
        include_str!("fixtures/widgets.yaml"),
        include_str!("fixtures/gadgets.yaml"),
    ] {
        install_crd(client, text).await?;
    }
    Ok(())
}

async fn install_crd(client: &Client, text: &str) -> Result<()> {
    let crd: Value = serde_saphyr::from_str(text).context("a fixture is not YAML")?;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let body = crd.to_string().into_bytes();
    ask(client, "POST", path, &[], body).await?.code(201)?;
    let (group, plural) = (&crd["spec"]["group"], &crd["spec"]["names"]["plural"]);
    let group = group.as_str().context("a fixture has no group")?;
    let plural = plural.as_str().context("a fixture has no plural")?;
    wait_until_served(client, &format!("/apis/{group}/v1/{plural}")).await
}

/// Waits until a path of a new custom resource answers a list.
///
/// # Errors
/// When it does not within ten seconds.
pub async fn wait_until_served(client: &Client, path: &str) -> Result<()> {
    let mut last = 0;
    for _ in 0..200 {
        last = ask(client, "GET", path, &[], Vec::new()).await?.code;
        if last == 200 {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    ensure!(last == 200, "{path} is not served: {last}");
    Ok(())
}
