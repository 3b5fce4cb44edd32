//! What an expression may cost at worst, judged when a definition is written.
//!
//! The numbers are part of the server's answers, so they follow its rules to the letter, the odd
//! ones included. Nothing here evaluates.

mod calls;
mod declared;
mod estimate;
mod size;

pub use declared::{Declared, MAX_REQUEST};
pub(super) use estimate::estimate;
