//! A Kubernetes API server in a box.
//!
//! One process, no disk, no sockets unless asked for: a `tower::Service` that `kube::Client` talks
//! to directly, and the same service behind hyper for kubectl. Controllers, faults and virtual time
//! are crates of their own that stand on this one.
//!
//! A Rust test starts a box in three lines:
//!
//! ```
//! # use k8s_openapi::api::core::v1::Namespace;
//! # use kube::Api;
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! let server = aplomb_apiserver::ApiServer::builder().build();
//! let client = aplomb_apiserver::http::client(&server);
//! let namespaces: Api<Namespace> = Api::all(client);
//! # let namespace = namespaces.get("default").await?;
//! # assert_eq!(namespace.metadata.name.as_deref(), Some("default"));
//! # Ok::<(), kube::Error>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! As with kube itself, the crate that uses this one chooses a version feature of `k8s-openapi`.
//!
//! This crate knows no controllers, no faults and no simulations, and must stay usable without them.
#![forbid(unsafe_code)]

pub mod admission;
pub mod audit;
pub mod auth;
pub mod call;
pub mod crd;
mod definitions;
pub mod http;
pub mod mutation;
pub mod registry;
pub mod server;
pub mod standalone;
pub mod storage;
pub mod subresource;

pub use server::ApiServer;
