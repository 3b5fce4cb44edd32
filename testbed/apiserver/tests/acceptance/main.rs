//! The API server as its clients meet it.

mod limits;
mod readme;
mod request_path;
mod wire;
