//! A message as a frame: four bytes of length, big endian, then that much JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The maximum length of a frame. A longer frame is a protocol error.
pub const MAX_FRAME_SIZE: usize = 16 * 1024;

/// Why a message could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// It is longer than [`MAX_FRAME_SIZE`].
    #[error("a frame of {0} bytes is longer than {MAX_FRAME_SIZE}")]
    TooLong(usize),
    /// Its content is not the expected JSON.
    #[error("not a message of this protocol: {0}")]
    Malformed(#[from] serde_json::Error),
    /// The stream ended or failed.
    #[error(transparent)]
    Stream(#[from] std::io::Error),
}

/// A message as a frame.
///
/// # Errors
/// It is too long.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, FrameError> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len()).ok().filter(|_| body.len() <= MAX_FRAME_SIZE);
    let length = length.ok_or(FrameError::TooLong(body.len()))?;
    let mut frame = length.to_be_bytes().to_vec();
    frame.extend_from_slice(&body);
    Ok(frame)
}

/// Reads one message and no byte beyond it.
///
/// # Errors
/// The stream ended before it, or the message is invalid.
pub async fn read_message<T: DeserializeOwned>(stream: &mut (impl AsyncRead + Unpin)) -> Result<T, FrameError> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    let length = usize::try_from(u32::from_be_bytes(head)).unwrap_or(usize::MAX);
    if length > MAX_FRAME_SIZE {
        return Err(FrameError::TooLong(length));
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(serde_json::from_slice(&body)?)
}

/// Writes one message.
///
/// # Errors
/// It is too long, or the stream failed.
pub async fn write_message<T: Serialize>(
    stream: &mut (impl AsyncWrite + Unpin),
    message: &T,
) -> Result<(), FrameError> {
    Ok(stream.write_all(&encode(message)?).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConnectorId, StreamRequest};

    #[tokio::test]
    async fn messages_round_trip_through_frames() {
        let open = StreamRequest::Dial {
            connector: ConnectorId::default(),
            session: "s".to_owned(),
            target: "localhost:3000".to_owned(),
            tls: None,
        };
        let mut stream = Vec::new();
        write_message(&mut stream, &open).await.expect("short");
        stream.push(b'x');
        let mut rest = &*stream;
        assert_eq!(read_message::<StreamRequest>(&mut rest).await.expect("readable"), open);
        assert_eq!(rest, b"x");
    }

    #[tokio::test]
    async fn an_oversized_frame_is_rejected_by_its_length() {
        let mut stream: &[u8] = &u32::MAX.to_be_bytes();
        let error = read_message::<StreamRequest>(&mut stream).await.expect_err("too long");
        assert!(matches!(error, FrameError::TooLong(_)), "{error}");
        assert!(encode(&"x".repeat(MAX_FRAME_SIZE)).is_err());
    }
}
