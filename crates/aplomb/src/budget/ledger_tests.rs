//! The ledger under every order of events.
