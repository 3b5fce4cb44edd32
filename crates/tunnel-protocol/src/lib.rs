//! The protocol between tunnel gateway and agent on an iroh stream: messages, frames, and what a proof states.
//! No sockets and no keys.
//!
//! The gateway opens a bidirectional stream and sends one [`StreamRequest`]; the agent answers with one
//! [`StreamReply`]. After `StreamRequest::Dial` and `StreamReply::Connected` the stream is the connection to the origin.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod frame;
mod message;
mod proof;

pub use frame::{FrameError, MAX_FRAME_SIZE, encode, read_message, write_message};
pub use message::{
    ALPN, CLOSE_NOT_ALLOWED, CLOSE_RELEASED, ConnectorId, OLD_ALPN, StreamRefusal, StreamReply, StreamRequest,
};
pub use proof::{
    MAX_PROBE_TIMEOUT, OriginState, Proof, ProofStatement, origin_check_timeout, probe_timeout, proof_timeout,
};
