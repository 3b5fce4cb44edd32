//! An agent's endpoint and a gateway's, over real iroh on loopback.

mod admission;
mod dial;
mod https;
mod lab;
mod prove;
