//! The data path as a client sees it: real listeners in front, origins in the same process behind.

mod bodies;
mod drain;
mod errors;
mod lab;
mod limits;
mod listeners;
mod networks;
mod paths;
mod pool;
mod proof;
mod rules;
mod tls;
mod upgrade;
