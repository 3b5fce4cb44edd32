//! An agent's endpoint and a gateway's, over real iroh on loopback.

mod dial;
mod https;
mod lab;
mod prove;
mod admission;
