//! What people see: one model of everything at one moment, behind the page, the tables and the JSON, so that
//! they cannot disagree. Shows names, conditions, times and counts; never what a Secret holds. Writes nothing.
#![forbid(unsafe_code)]

pub mod light;
pub mod status;
pub mod table;
