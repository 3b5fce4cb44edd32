//! Tests of decisions, one by one and in sequences: a model of nodes and provider runs the steps,
//! so that tests check the final state and every state in between.

mod assertions;
mod conditions;
mod failures;
mod holds;
mod limits;
mod locks;
mod model;
mod moves;
mod parity;
mod parity_graces;
mod properties;
mod provider;
mod steady;
mod term_writes;
