//! What `decide` promises, on worlds that are written out.

mod build;
mod isolation;
mod listeners;
mod ownership;
mod routes;
