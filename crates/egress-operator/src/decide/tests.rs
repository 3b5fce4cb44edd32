//! Decisions, one by one and in sequences: a model of nodes and provider carries out the steps, so that
//! what is tested is where things end up and what was seen on the way.

mod term_writes;
mod conditions;
mod failures;
mod holds;
mod limits;
mod assertions;
mod locks;
mod model;
mod moves;
mod parity;
mod parity_graces;
mod properties;
mod provider;
mod steady;
