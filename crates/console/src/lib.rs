//! What people see: one model of everything at one moment, behind the page, the tables and the JSON, so that
//! they cannot disagree. Shows names, conditions, times and counts; never what a Secret holds. Writes nothing.
#![forbid(unsafe_code)]

#[cfg(test)]
mod fixture;
pub mod health;
pub mod page;
pub mod terminal;
pub mod serve;
pub mod status;
pub mod object_story;
pub mod table;
pub mod trace;
