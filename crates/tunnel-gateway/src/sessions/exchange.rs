//! One request to an agent on a stream of its own: a frame out, a frame back, and after that the bytes.

use aplomb_tunnel_protocol::{FrameError, StreamReply, StreamRequest, read_message, write_message};
use iroh::endpoint::{Connection, RecvStream, SendStream};
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, timeout_at};

use crate::dial::OriginStream;

/// A stream whose agent has answered.
pub(super) struct AgentStream {
    pub(super) reply: StreamReply,
    send: SendStream,
    recv: RecvStream,
}

impl AgentStream {
    /// The rest of the stream: the bytes of the origin.
    pub(super) fn into_stream(self) -> Box<dyn OriginStream> {
        Box::new(tokio::io::join(self.recv, self.send))
    }
}

/// Why there is a failure instead of a reply.
#[derive(Debug)]
pub(super) enum ExchangeError {
    /// The session is dead.
    Connection,
    /// The deadline passed.
    TimedOut,
    /// The agent's reply violates the protocol.
    Protocol(String),
}

/// Asks an agent something.
pub(super) async fn request(
    connection: &Connection,
    open: &StreamRequest,
    until: Instant,
) -> Result<AgentStream, ExchangeError> {
    match timeout_at(until, send_and_receive(connection, open)).await {
        Ok(Ok(exchange)) => Ok(exchange),
        Ok(Err(ExchangeError::Protocol(error))) if connection.close_reason().is_none() => {
            Err(ExchangeError::Protocol(error))
        }
        Ok(Err(_)) => Err(ExchangeError::Connection),
        Err(_) => Err(ExchangeError::TimedOut),
    }
}

async fn send_and_receive(connection: &Connection, open: &StreamRequest) -> Result<AgentStream, ExchangeError> {
    let protocol = |error: FrameError| ExchangeError::Protocol(error.to_string());
    let (mut send, mut recv) = connection.open_bi().await.map_err(|_| ExchangeError::Connection)?;
    write_message(&mut send, open).await.map_err(protocol)?;
    send.flush().await.map_err(|error| protocol(error.into()))?;
    let reply = read_message(&mut recv).await.map_err(protocol)?;
    Ok(AgentStream { reply, send, recv })
}
