//! A Kubernetes API server in a box.
//!
//! One process, no disk, no sockets unless asked for: a `tower::Service` that `kube::Client` talks
//! to directly, and the same service behind hyper for kubectl. Beside it live the faults that can
//! be put between a client and a server, the virtual-time world that makes a run a function of
//! its seed, and two services with their rate limits: [`hetzner`], a Hetzner Cloud API, and
//! [`coderd`], a Coder server.
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
//! This crate depends on no other crate of the workspace and must stay usable alone.
#![forbid(unsafe_code)]

pub mod actors;
pub mod admission;
pub mod audit;
pub mod auth;
pub mod breakage;
pub mod cached;
pub mod call;
pub mod clock;
pub mod coderd;
mod definitions;
pub mod faults;
pub mod field;
pub mod hetzner;
pub mod http;
pub mod kinds;
pub mod merge;
pub mod object;
mod ownership;
mod pattern;
mod private_file;
pub mod resource;
pub mod rest;
pub mod schema;
pub mod server;
pub mod stand_in;
pub mod status;
pub mod store;
pub mod subresource;
pub mod trace;
#[cfg(feature = "world")]
pub mod world;

pub use merge::go;
pub use server::ApiServer;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
