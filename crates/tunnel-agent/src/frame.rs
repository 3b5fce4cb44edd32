//! Frames on a stream: read with a bound, written whole. What they mean is for others to say.

use aplomb_api::wire::{self, FrameError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Why there is no message.
#[derive(Debug, thiserror::Error)]
pub enum FrameReadError {
    /// The peer sent something else.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The stream ended or broke.
    #[error(transparent)]
    Stream(#[from] std::io::Error),
}

/// Reads one message; not a byte beyond it is taken.
///
/// # Errors
/// The stream ended before it, or it is not one.
pub async fn read_message<T: DeserializeOwned>(
    stream: &mut (impl AsyncRead + Unpin),
) -> Result<T, FrameReadError> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    let mut body = vec![0; wire::length(head)?];
    stream.read_exact(&mut body).await?;
    Ok(wire::decode(&body)?)
}

/// Writes one message.
///
/// # Errors
/// It is too long, or the stream broke.
pub async fn write_message<T: Serialize>(
    stream: &mut (impl AsyncWrite + Unpin),
    message: &T,
) -> Result<(), FrameReadError> {
    stream.write_all(&wire::encode(message)?).await?;
    Ok(())
}
