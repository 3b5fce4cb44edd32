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
mod escape;
mod eval;
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
mod value;

pub(super) use program::Compiled;
pub(super) use rules::Rules;

#[cfg(test)]
mod tests;
