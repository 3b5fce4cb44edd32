//! The model behind the page, the tables and the JSON: everything at one moment, so that they cannot disagree.
//! Shows names, conditions, times and counts; never the contents of a Secret. Writes nothing.
#![forbid(unsafe_code)]

#[cfg(test)]
mod fixture;
pub mod health;
pub mod object_story;
pub mod page;
pub mod serve;
pub mod status;
pub mod table;
pub mod terminal;
pub mod trace;
