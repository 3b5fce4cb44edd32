//! A connector: iroh in, a local service out. It serves only the gateways its class lists and dials
//! only the targets it was told to expose.
#![forbid(unsafe_code)]
