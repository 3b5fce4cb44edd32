//! The fake services through their own interfaces, in virtual time.

mod coderd;
mod hetzner;
mod page;
