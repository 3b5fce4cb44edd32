//! The operator of CoderProvisioner: keys, the Secret they are in, and the daemons that use them.

pub(crate) mod act;
pub(crate) mod children;
pub(crate) mod controller;
pub(crate) mod decide;
pub(crate) mod observe;
mod report;
pub(crate) mod world;
