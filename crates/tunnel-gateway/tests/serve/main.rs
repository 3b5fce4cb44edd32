//! The data path from the client's view: real listeners, and origins in the same process.

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
