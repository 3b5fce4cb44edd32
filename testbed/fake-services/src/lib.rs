//! Two services with their rate limits, for tests and for trying things out: [`hcloud`], a Hetzner
//! Cloud API, and [`coderd`], a Coder server. Both are built on [`service`].
#![forbid(unsafe_code)]

pub mod coderd;
pub mod hcloud;
pub mod service;
