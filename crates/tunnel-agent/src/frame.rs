//! Reads and writes length-limited frames on a stream. Their content is handled elsewhere.

use aplomb_api::wire::{self, FrameError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Why no message could be read.
#[derive(Debug, thiserror::Error)]
pub enum FrameReadError {
    /// The peer sent an invalid frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The stream ended or failed.
    #[error(transparent)]
    Stream(#[from] std::io::Error),
}

/// Reads one message and no byte beyond it.
///
/// # Errors
/// The stream ended before it, or the message is invalid.
pub async fn read_message<T: DeserializeOwned>(stream: &mut (impl AsyncRead + Unpin)) -> Result<T, FrameReadError> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    let mut body = vec![0; wire::body_length(head)?];
    stream.read_exact(&mut body).await?;
    Ok(wire::decode(&body)?)
}

/// Writes one message.
///
/// # Errors
/// It is too long, or the stream failed.
pub async fn write_message<T: Serialize>(
    stream: &mut (impl AsyncWrite + Unpin),
    message: &T,
) -> Result<(), FrameReadError> {
    stream.write_all(&wire::encode(message)?).await?;
    Ok(())
}
