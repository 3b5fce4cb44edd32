//! coderd's API: thin, typed calls that keep the headers of every answer, because they say what is left
//! of the rate limit.

mod error;
mod model;

pub use error::{CallError, Class};
pub use model::{
    Daemon, Entitlement, Feature, Key, KeyDaemons, NewKey, NewProxy, Organization, Proxy,
    ProxyHealth,
};
