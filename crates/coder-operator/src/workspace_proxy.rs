//! The operator of CoderWorkspaceProxy: registrations, the Secret with a proxy's token, and its pods.

mod act;
mod children;
pub(crate) mod controller;
mod decide;
pub(crate) mod observe;
mod report;
mod world;
