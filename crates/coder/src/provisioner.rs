//! The operator of CoderProvisioner: keys, the Secret they are in, and the daemons that use them.

mod act;
pub(crate) mod children;
pub(crate) mod controller;
pub(crate) mod decide;
mod observe;
mod report;
mod world;
