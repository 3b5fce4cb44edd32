//! A whole box at once: server, TLS listener, kubeconfig and audit log.

use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use crate::audit::Log;
use crate::auth::Tokens;
use crate::http::Limits;
use crate::http::serve::{self, Handle};
use crate::http::service::{Service, admin};
use crate::http::{kubeconfig, tls};
use crate::server::ApiServer;
use crate::storage::Secrets;

/// Names under which a cluster keeps what its kubeconfig says.
const TOKEN: &str = "admin.token";
const PORT: &str = "port";

/// How to start a box.
#[derive(Clone, Debug)]
pub struct StandaloneConfig {
    /// Address to listen on; port 0 picks one.
    pub listen: SocketAddr,
    /// Where to write a kubeconfig.
    pub kubeconfig: Option<PathBuf>,
    /// Where to append audit events.
    pub audit_log: Option<PathBuf>,
    /// Whether requests are authorised by the stored roles and bindings.
    pub rbac: bool,
    /// The administrator's token; one is made up when absent.
    pub token: Option<String>,
    /// How much it takes on at once.
    pub limits: Limits,
}

impl Default for StandaloneConfig {
    /// A free port on loopback, no files, everybody may do everything.
    fn default() -> Self {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        Self {
            listen,
            kubeconfig: None,
            audit_log: None,
            rbac: false,
            token: None,
            limits: Limits::default(),
        }
    }
}

/// Why a box did not start.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("listen on {address}: {source}")]
    Listen {
        address: SocketAddr,
        source: std::io::Error,
    },
    #[error("write {}: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{} holds something else: name a new file, or remove it", path.display())]
    Foreign { path: PathBuf },
    #[error(transparent)]
    Tls(#[from] tls::Error),
    #[error("{0}; check the data directory, its owner and the space on its disk")]
    Kept(#[from] std::io::Error),
}

/// A box that is serving. Dropping it stops it; files it wrote stay.
#[derive(Debug)]
pub struct Running {
    service: Service,
    handle: Handle,
    kubeconfig: String,
}

impl Running {
    /// `https://` and the address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://{}", self.handle.address())
    }

    /// The service, for clients in the same process.
    #[must_use]
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// The text of its kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// Lets open requests finish for a moment and stops.
    pub async fn stop(self) {
        self.handle.stop().await;
    }
}

/// Starts a box with a server of its own.
///
/// # Errors
/// The address is taken or a file cannot be written.
pub async fn start(config: StandaloneConfig) -> Result<Running, Error> {
    let server = ApiServer::builder().rbac(config.rbac).build();
    start_with(server, config).await
}

/// Starts a box around a server.
///
/// # Errors
/// The address is taken or a file cannot be written.
pub async fn start_with(server: ApiServer, config: StandaloneConfig) -> Result<Running, Error> {
    if let Some(path) = &config.kubeconfig
        && !kubeconfig::may_replace(path)
    {
        return Err(Error::Foreign { path: path.clone() });
    }
    let audit = config.audit_log.map(open_log).transpose()?;
    let tokens = Tokens::default();
    let secrets = server.secrets().clone();
    let token = match config.token {
        Some(token) => token,
        None => secrets.get_or_make(TOKEN, || Ok::<_, Error>(server.clock().uuid()))?,
    };
    tokens.insert(&token, admin());
    let service = Service::limited(server, tokens, audit, config.limits);
    let identity = tls::Identity::of(&secrets, config.listen.ip())?;
    let ca = identity.ca_pem.clone();
    let handle = listen(&service, config.listen, identity, &secrets).await?;
    let text = kubeconfig::render(handle.address(), &ca, &token);
    if let Some(path) = config.kubeconfig {
        kubeconfig::write(&path, &text).map_err(|source| Error::File { path, source })?;
    }
    Ok(Running {
        service,
        handle,
        kubeconfig: text,
    })
}

/// Listens where it did before if the port was free to choose, so that a kubeconfig written then
/// goes on working.
async fn listen(
    service: &Service,
    address: SocketAddr,
    identity: tls::Identity,
    secrets: &Secrets,
) -> Result<Handle, Error> {
    let open = |address| serve::serve(service.clone(), address, Some(identity.clone()));
    let before = secrets.get(PORT)?.and_then(|port| port.parse().ok());
    if let Some(port) = before.filter(|_| address.port() == 0) {
        match open(SocketAddr::new(address.ip(), port)).await {
            Ok(handle) => return Ok(handle),
            Err(error) => {
                tracing::warn!(%error, port, "The port of before is taken; the kubeconfig names a new one");
            }
        }
    }
    let opened = open(address).await;
    let handle = opened.map_err(|source| Error::Listen { address, source })?;
    if address.port() == 0 {
        secrets.keep(PORT, &handle.address().port().to_string())?;
    }
    Ok(handle)
}

fn open_log(path: PathBuf) -> Result<Log, Error> {
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
    file.map(Log::new).map_err(|source| Error::File { path, source })
}
