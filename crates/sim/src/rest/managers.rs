//! Who owns which field: the place where the verbs meet `merge`.

use serde_json::Value;

use crate::call::Call;
use crate::server::ApiServer;

/// Field management for one call.
#[derive(Debug)]
pub(super) struct Managers<'a> {
    _server: &'a ApiServer,
    _call: &'a Call,
}

impl<'a> Managers<'a> {
    pub(super) fn of(server: &'a ApiServer, call: &'a Call) -> Self {
        Self { _server: server, _call: call }
    }

    /// The object with its owners after a write that is not an apply.
    pub(super) fn update(&self, _live: Option<&Value>, object: Value) -> Value {
        object
    }
}
