//! The real kube-apiserver as a [`Server`].

use std::sync::Arc;

use anyhow::{Context, Result};
use aplomb_controlplane::{ControlPlane, Options};
use futures::future::BoxFuture;
use kube::Client;
use tokio::sync::OnceCell;

use crate::answer::Answer;
use crate::faults::{self, ServerFault};
use crate::server::{Connection, Server, Side};
use crate::tls;

/// A running control plane with its clients.
pub struct Real {
    plane: ControlPlane,
    admin: Client,
    restricted: Client,
    stranger: Client,
    /// Started by the first case that needs it, and no part of what the others see.
    troubled: OnceCell<ControlPlane>,
}

impl Real {
    /// Starts both flavours at once.
    ///
    /// # Errors
    /// When one does not come up.
    pub async fn side() -> Result<Side> {
        let (plain, collected) = futures::try_join!(
            Self::start(Options::default()),
            Self::start(Options::with_controllers())
        )?;
        Ok(Side {
            plain: Arc::new(plain),
            collected: Arc::new(collected),
        })
    }

    /// Starts one.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn start(options: Options) -> Result<Self> {
        let plane = ControlPlane::start(options).await.context("starting the real server")?;
        let admin = plane.client().await?;
        let restricted = plane.client_of(0, &plane.tokens().restricted).await?;
        let stranger = plane.client_of(0, "nobody-knows-this").await?;
        Ok(Self {
            plane,
            admin,
            restricted,
            stranger,
            troubled: OnceCell::new(),
        })
    }
}

impl Server for Real {
    fn name(&self) -> &'static str {
        "real"
    }

    fn client(&self) -> Client {
        self.admin.clone()
    }

    fn restricted(&self) -> Client {
        self.restricted.clone()
    }

    fn stranger(&self) -> Client {
        self.stranger.clone()
    }

    fn token(&self) -> String {
        self.plane.tokens().admin.clone()
    }

    fn compact(&self, revision: u64) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.plane.compact(revision))
    }

    fn in_trouble(&self, trouble: ServerFault) -> BoxFuture<'_, Result<Answer>> {
        Box::pin(async move {
            let plane = self.troubled.get_or_try_init(faults::plane).await?;
            trouble.on(plane).await
        })
    }

    fn connect(&self) -> BoxFuture<'_, Result<Connection>> {
        Box::pin(tls::connect(self.plane.url(), self.plane.authority_pem()))
    }
}
