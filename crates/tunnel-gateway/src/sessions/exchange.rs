//! One request to an agent on a stream of its own: a frame out, a frame back, and after that the bytes.

use aplomb_api::wire::{self, StreamReply, StreamRequest};
use iroh::endpoint::{Connection, RecvStream, SendStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
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
    let protocol = |error: &dyn std::fmt::Display| ExchangeError::Protocol(error.to_string());
    let frame = wire::encode(open).map_err(|error| protocol(&error))?;
    let (mut send, mut recv) = connection.open_bi().await.map_err(|_| ExchangeError::Connection)?;
    send.write_all(&frame).await.map_err(|error| protocol(&error))?;
    send.flush().await.map_err(|error| protocol(&error))?;
    let mut head = [0; 4];
    AsyncReadExt::read_exact(&mut recv, &mut head)
        .await
        .map_err(|error| protocol(&error))?;
    let length = wire::body_length(head).map_err(|error| protocol(&error))?;
    let mut body = vec![0; length];
    AsyncReadExt::read_exact(&mut recv, &mut body)
        .await
        .map_err(|error| protocol(&error))?;
    let reply = wire::decode(&body).map_err(|error| protocol(&error))?;
    Ok(AgentStream { reply, send, recv })
}
