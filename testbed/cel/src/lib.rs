//! The Common Expression Language as Kubernetes has it: parsing, types, evaluation and cost.
//!
//! Expressions are parsed, type-checked and evaluated here, because the messages of the server's
//! compiler and runtime are part of its answers; only the Kubernetes function libraries come from
//! `kube-cel`. Nothing here knows schemas, definitions or policies.
#![forbid(unsafe_code)]

mod ast;
mod check;
mod conversions;
mod cost;
mod escape;
mod eval;
mod expression;
mod functions;
mod lexer;
mod library;
mod lists;
mod parser;
mod signatures;
mod source;
mod strings;
mod times;
mod types;
mod unify;
mod value;

pub use cost::{Declared, MAX_REQUEST};
pub use escape::{RESERVED, escape};
pub use eval::{COST_EXCEEDED, NO_OVERLOAD, Outcome};
pub use expression::{Expression, Mistake};
pub use times::{parse_duration, parse_timestamp};
pub use types::{Object, Type};
pub use value::{Host, Key, ListKind, Opaque, Val, value_of};
