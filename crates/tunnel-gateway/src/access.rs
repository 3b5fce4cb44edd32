//! The access log: one JSON line per request, written when the request ends. A line contains no query, header or body,
//! because those may hold secrets. If the writer falls behind, lines are dropped; requests are never delayed.

use std::fmt;
use std::io::Write;

use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::mpsc;

const MAX_QUEUED_ENTRIES: usize = 8192;

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessLogEntry {
    pub time: Timestamp,
    /// The request id in this log and in the header sent to the origin.
    pub request_id: String,
    pub client: String,
    /// namespace/name of the tunnel, if the hostname belongs to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tunnel: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    pub method: String,
    pub host: String,
    /// The path, without the query.
    pub path: String,
    /// HTTP/1.1 or HTTP/2.0.
    pub protocol: String,
    /// The status code; 499 if the client disconnected before a response.
    pub status: u16,
    /// Why the gateway itself responded or aborted; one of [`crate::reason`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    pub received: u64,
    pub sent: u64,
    /// Milliseconds from the first byte of the request head to the last byte of the response body.
    pub duration_ms: f64,
}

/// Destination of access log lines. Clones share it.
#[derive(Clone)]
pub struct AccessLog(mpsc::Sender<AccessLogEntry>);

impl AccessLog {
    /// Writes lines to `writer` from a separate thread, because a full pipe must not block requests.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn new(writer: impl Write + Send + 'static) -> std::io::Result<Self> {
        let (lines, waiting) = mpsc::channel(MAX_QUEUED_ENTRIES);
        std::thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || write_entries(waiting, writer))?;
        Ok(Self(lines))
    }

    /// Queues a line; false if it was dropped.
    pub(crate) fn try_log(&self, line: AccessLogEntry) -> bool {
        self.0.try_send(line).is_ok()
    }
}

impl fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessLog")
    }
}

/// Writes until all senders are dropped or the writer fails.
fn write_entries(mut waiting: mpsc::Receiver<AccessLogEntry>, writer: impl Write) {
    let mut writer = std::io::BufWriter::new(writer);
    while let Some(line) = waiting.blocking_recv() {
        let written = serde_json::to_writer(&mut writer, &line)
            .map_err(std::io::Error::from)
            .and_then(|()| writer.write_all(b"\n"))
            .and_then(|()| match waiting.is_empty() {
                true => writer.flush(),
                false => Ok(()),
            });
        if let Err(error) = written {
            tracing::warn!(%error, "Failed to write the access log; access logging stops");
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc as sync;

    use super::*;

    struct ChannelWriter(sync::Sender<Vec<u8>>);

    impl Write for ChannelWriter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            // The test may have stopped receiving.
            let _ = self.0.send(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn entry() -> AccessLogEntry {
        AccessLogEntry {
            time: Timestamp::UNIX_EPOCH,
            request_id: "1".to_owned(),
            client: "192.0.2.1".to_owned(),
            tunnel: Some("default/x".to_owned()),
            revision: None,
            method: "GET".to_owned(),
            host: "a.example.com".to_owned(),
            path: "/\"quoted\"".to_owned(),
            protocol: "HTTP/1.1".to_owned(),
            status: 200,
            reason: None,
            received: 0,
            sent: 3,
            duration_ms: 1.5,
        }
    }

    #[test]
    fn a_request_is_one_line_of_json() {
        let (send, receive) = sync::channel();
        let log = AccessLog::new(ChannelWriter(send)).expect("a thread");
        assert!(log.try_log(entry()));
        let text = receive.recv().expect("a line");
        let text = String::from_utf8(text).expect("text");
        assert_eq!(text.lines().count(), 1);
        let read: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(read["path"], "/\"quoted\"");
        assert_eq!(read["tunnel"], "default/x");
        assert_eq!(read.get("reason"), None);
    }

    #[test]
    fn a_blocked_writer_loses_only_entries() {
        struct BlockedWriter(sync::Receiver<()>);
        impl Write for BlockedWriter {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                // Ends with the test.
                let _ = self.0.recv();
                Ok(bytes.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let (_held, hang) = sync::channel();
        let log = AccessLog::new(BlockedWriter(hang)).expect("a thread");
        let kept = (0..MAX_QUEUED_ENTRIES * 3).filter(|_| log.try_log(entry())).count();
        assert!((MAX_QUEUED_ENTRIES..MAX_QUEUED_ENTRIES * 3).contains(&kept), "{kept}");
    }
}
