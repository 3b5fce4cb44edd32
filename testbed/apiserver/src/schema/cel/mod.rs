//! Rules in the Common Expression Language (`x-kubernetes-validations`).
//!
//! Expressions are parsed, type-checked and evaluated here, because the messages of the server's
//! compiler and runtime are part of its answers; only the Kubernetes function libraries come from
//! `kube-cel`.

mod ast;
mod bridge;
mod check;
mod conversions;
mod convert;
mod cost;
mod escape;
mod eval;
mod expression;
mod functions;
mod lexer;
mod lists;
mod parser;
mod program;
mod rules;
mod signatures;
mod source;
mod strings;
mod times;
mod types;
mod unify;
mod value;

pub(crate) use convert::value_of;
pub(crate) use escape::RESERVED;
pub(crate) use eval::Outcome;
pub(crate) use expression::{Expression, Mistake};
pub(super) use program::Compiled;
pub(super) use rules::Rules;
pub(crate) use types::Type;
pub(crate) use value::{Host, Val};

#[cfg(test)]
mod tests;
