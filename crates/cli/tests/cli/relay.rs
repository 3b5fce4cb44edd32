//! `aplomb connect --relay-only` through operator, gateway and a real relay on loopback, on `aplomb box`.
//! `tools/make/relay` builds the relay and runs this; by itself it is ignored.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use aplomb_api::tunnel::{Connector, ConnectorClass, GatewayReplica, HttpProxy};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::boxed::Boxed;

const TIMEOUT: Duration = Duration::from_secs(180);

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// A relay, and its URL.
fn start_relay(server: &Boxed) -> Result<(Running, String)> {
    let program = std::env::var("APLOMB_IROH_RELAY").context("run tools/make/relay")?;
    let config = server.dir().join("relay.toml");
    let settings = "enable_metrics = false\nhttp_bind_addr = \"127.0.0.1:0\"\n";
    std::fs::write(&config, settings)?;
    let mut process = Command::new(program)
        .args(["--dev", "--config-path"])
        .arg(&config)
        .env("RUST_LOG", "info")
        .env("NO_COLOR", "1")
        .stderr(Stdio::piped())
        .spawn()?;
    let mut log = BufReader::new(process.stderr.take().context("its log is piped")?).lines();
    let process = Running(process);
    let address = log.find_map(|line| {
        let line = line.ok()?;
        let (_, address) = line.split_once("serving on ")?;
        Some(address.trim().to_owned())
    });
    thread::spawn(move || log.for_each(drop));
    Ok((process, format!("http://{}", address.context("the relay ended")?)))
}

/// A service that responds to every request alike.
fn start_origin() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut head = [0; 4096];
                let read = stream.read(&mut head).unwrap_or_default();
                if read > 0 {
                    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\nhello\n";
                    let _sent = stream.write_all(answer.as_bytes());
                }
            });
        }
    });
    Ok(port)
}

fn free_address() -> Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}

async fn client(server: &Boxed) -> Result<Client> {
    let config = Kubeconfig::read_from(server.kubeconfig())?;
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

/// Starts `aplomb` with these arguments; its log is in `NAME.log`.
fn start(server: &Boxed, name: &str, args: &[&str]) -> Result<Running> {
    let log = std::fs::File::create(server.dir().join(format!("{name}.log")))?;
    let mut command = server.command(args);
    let command = command.stdout(Stdio::null()).stderr(log);
    Ok(Running(command.spawn()?))
}

/// Waits until the tunnel is ready, and prints its conditions if it never is.
async fn wait_ready(proxies: &Api<HttpProxy>) -> Result<HttpProxy> {
    let began = Instant::now();
    let mut last = None;
    while began.elapsed() < TIMEOUT {
        if let Some(proxy) = proxies.get_opt("web").await? {
            let conditions = proxy.status.iter().flat_map(|it| &it.conditions);
            let mut ready = conditions.filter(|it| it.type_ == "Ready");
            if ready.any(|it| it.status == "True") {
                return Ok(proxy);
            }
            last = Some(proxy);
        }
        sleep(Duration::from_millis(50)).await;
    }
    bail!("not ready: {:#?}", last.and_then(|it| it.status))
}

/// The body of a response for a hostname at a gateway.
fn fetch_body(listen: &str, hostname: &str) -> Result<String> {
    let mut stream = TcpStream::connect(listen)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(
        stream,
        "GET / HTTP/1.1\r\nhost: {hostname}\r\nconnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let (_, body) = answer.split_once("\r\n\r\n").context("a body")?;
    Ok(body.to_owned())
}

/// One tunnel whose agent publishes no address, with a relay URL in the class in the form of `written`.
async fn connect_through(written: impl Fn(&str) -> String) -> Result<()> {
    let server = Boxed::with_kinds(&[]);
    let (_relay, url) = start_relay(&server)?;
    let client = client(&server).await?;
    let class = json!({
        "apiVersion": "aplomb.dev/v1alpha1", "kind": "ConnectorClass", "metadata": { "name": "aplomb" },
        "spec": { "relays": [written(&url)] },
    });
    let classes: Api<ConnectorClass> = Api::all(client.clone());
    let class = serde_json::from_value(class)?;
    classes.create(&Default::default(), &class).await?;
    let run = [
        "run",
        "tunnel",
        "--domain",
        "tunnels.example.com",
        "--leader-elect",
        "false",
    ];
    let _operator = start(&server, "operator", &run)?;
    let (listen, admin) = (free_address()?, free_address()?);
    let flags = ["--identity", "gateway-1", "--listen", &listen, "--admin", &admin];
    let _gateway = start(&server, "gateway", &[&["gateway"], &flags[..]].concat())?;
    let (port, key) = (start_origin()?.to_string(), server.dir().join("web.key"));
    let key = key.to_str().context("a path")?;
    let connect = [
        "connect",
        &port,
        "--name",
        "web",
        "--relay-only",
        "--key-file",
        key,
        "--json",
    ];
    let _agent = start(&server, "agent", &connect)?;
    let hostname = wait_proven(client, &url).await?;
    ensure!(fetch_body(&listen, &hostname)? == "hello\n");
    Ok(())
}

/// Waits for the tunnel, checks the published relay, and returns its hostname.
async fn wait_proven(client: Client, url: &str) -> Result<String> {
    let began = Instant::now();
    let proxies: Api<HttpProxy> = Api::default_namespaced(client.clone());
    let status = wait_ready(&proxies).await?.status.context("a status")?;
    println!("ready after {:.1?}", began.elapsed());
    let connectors: Api<Connector> = Api::default_namespaced(client.clone());
    let details = connectors.get("web").await?.status.context("a status")?;
    let key = details.connection_details.context("details")?.public_key;
    ensure!(key.addresses.is_empty(), "{key:?}");
    let mut conditions = status.conditions.iter();
    let metadata = conditions.find(|it| it.type_ == "ConnectorMetadataProgrammed");
    let metadata = metadata.context("the relay is published")?;
    ensure!(metadata.status == "True", "{metadata:?}");
    let replicas: Api<GatewayReplica> = Api::namespaced(client, "aplomb-system");
    let used = replicas.get("gateway-1").await?.spec.relays;
    ensure!(used == Some(vec![format!("{url}/")]), "{used:?}");
    status.hostname.context("a hostname")
}

#[tokio::test]
#[ignore = "needs a relay: tools/make/relay"]
async fn an_agent_without_addresses_is_reached_however_its_class_writes_the_relay() -> Result<()> {
    let installed = rustls::crypto::aws_lc_rs::default_provider().install_default();
    ensure!(installed.is_ok(), "a TLS provider was installed before");
    connect_through(str::to_owned).await?;
    connect_through(|url| format!("{url}/")).await
}
