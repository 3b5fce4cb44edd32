//! The box as a [`Server`]: clients in process, and a TLS port for bytes no client would send.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Result;
use aplomb_apiserver::call::User;
use aplomb_apiserver::http::{Handle, Identity, Service, admin, serve};
use aplomb_apiserver::server::ApiServer;
use aplomb_controllers::{Controllers, Running};
use futures::future::BoxFuture;
use kube::Client;
use tower::ServiceBuilder;
use tower::util::MapRequestLayer;

use crate::answer::Answer;
use crate::faults::ServerFault;
use crate::server::{Connection, Server, Side};
use crate::tls;

/// The administrator's token, as on the real server.
const TOKEN: &str = "admin-token";

/// A box with everything a case may ask for.
pub struct InBox {
    service: Service,
    handle: Handle,
    authority_pem: String,
    _actors: Running,
}

impl InBox {
    /// Starts both flavours.
    ///
    /// # Errors
    /// When a port cannot be had.
    pub async fn side() -> Result<Side> {
        let plain = Self::start(&Controllers::none()).await?;
        let collected = Self::start(&Controllers::cluster()).await?;
        Ok(Side {
            plain: Arc::new(plain),
            collected: Arc::new(collected),
        })
    }

    /// Starts one, authorising by roles as the real one does.
    ///
    /// # Errors
    /// When a port cannot be had.
    pub async fn start(actors: &Controllers) -> Result<Self> {
        let server = ApiServer::builder().rbac(true).build();
        let actors = actors.start(&server);
        let service = Service::new(server);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let identity = Identity::generate(IpAddr::V4(Ipv4Addr::LOCALHOST))?;
        let authority_pem = identity.ca_pem.clone();
        let handle = serve(service.clone(), address, Some(identity)).await?;
        service.tokens().insert(TOKEN, admin());
        Ok(Self {
            service,
            handle,
            authority_pem,
            _actors: actors,
        })
    }
}

impl Server for InBox {
    fn name(&self) -> &'static str {
        "box"
    }

    fn client(&self) -> Client {
        self.service.client()
    }

    fn restricted(&self) -> Client {
        let name = "restricted".to_owned();
        let uid = "restricted-uid".to_owned();
        self.service.client_as(&User {
            name,
            uid,
            ..User::default()
        })
    }

    fn stranger(&self) -> Client {
        let unknown = http::HeaderValue::from_static("Bearer nobody-knows-this");
        let service = ServiceBuilder::new()
            .layer(MapRequestLayer::new(
                move |mut request: http::Request<kube::client::Body>| {
                    request
                        .headers_mut()
                        .insert(http::header::AUTHORIZATION, unknown.clone());
                    request
                },
            ))
            .service(self.service.clone());
        Client::new(service, "default")
    }

    fn token(&self) -> String {
        TOKEN.to_owned()
    }

    fn compact(&self, revision: u64) -> BoxFuture<'_, Result<()>> {
        self.service.server().store().compact(revision);
        Box::pin(std::future::ready(Ok(())))
    }

    fn in_trouble(&self, trouble: ServerFault) -> BoxFuture<'_, Result<Answer>> {
        let client = self.client();
        Box::pin(async move { trouble.in_front_of(&client).await })
    }

    fn connect(&self) -> BoxFuture<'_, Result<Connection>> {
        let url = format!("https://{}", self.handle.address());
        Box::pin(async move { tls::connect(&url, &self.authority_pem).await })
    }
}
