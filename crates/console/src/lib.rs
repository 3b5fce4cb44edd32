//! The model behind the page, the tables and the JSON: everything at one moment, so that they cannot disagree.
//! Shows names, conditions, times and counts; never the contents of a Secret. Writes nothing.
#![forbid(unsafe_code)]

#[cfg(test)]
mod fixture;
pub mod light;
pub mod page;
pub mod screen;
pub mod serve;
pub mod status;
pub mod story;
pub mod table;
pub mod trace;
