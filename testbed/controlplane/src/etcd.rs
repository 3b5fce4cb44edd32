//! The one thing tests ask of etcd itself: compaction, over its JSON gateway.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Drops all revisions older than `revision` and waits until they are gone.
pub(crate) async fn compact(port: u16, revision: u64) -> Result<()> {
    let body = format!(r#"{{"revision":"{revision}","physical":true}}"#);
    let request = format!(
        "POST /v3/kv/compaction HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut answer = String::new();
    timeout(Duration::from_secs(10), async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.write_all(request.as_bytes()).await?;
        stream.read_to_string(&mut answer).await
    })
    .await
    .context("etcd did not answer the compaction")??;
    ensure!(answer.starts_with("HTTP/1.1 200"), "compaction refused: {answer}");
    Ok(())
}
