//! A private service, and a client of the public listener. Both write HTTP/1.1 directly, so that an upgraded
//! connection is plain bytes.

use std::net::SocketAddr;
use std::time::Duration;

use aplomb::Tasks;
use aplomb::tasks::TaskHandle;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

const TIMEOUT: Duration = Duration::from_secs(30);

/// A service that responds to every request with its text, and echoes after an upgrade.
pub struct Service {
    pub address: SocketAddr,
    _serving: TaskHandle<()>,
}

impl Service {
    pub async fn start(text: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let work = async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, text));
            }
        };
        Self {
            address,
            _serving: Tasks::on_runtime().spawn(work),
        }
    }
}

async fn serve(mut stream: TcpStream, text: &str) -> Option<()> {
    loop {
        let head = read_head(&mut stream).await?;
        if head.to_ascii_lowercase().contains("upgrade: websocket") {
            let agreed = "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n";
            stream.write_all(agreed.as_bytes()).await.ok()?;
            let (mut read, mut write) = stream.split();
            tokio::io::copy(&mut read, &mut write).await.ok()?;
            return None;
        }
        let length = text.len();
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{text}");
        stream.write_all(answer.as_bytes()).await.ok()?;
    }
}

/// Reads to the end of a head, and no byte beyond it.
async fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    String::from_utf8(head).ok()
}

/// The public response.
#[derive(Debug)]
pub struct PublicResponse {
    pub status: u16,
    /// Head and body.
    pub text: String,
}

impl PublicResponse {
    /// Whether the gateway itself responded with this reason.
    pub fn is_gateway_error(&self, status: u16, word: &str) -> bool {
        let word = format!("x-aplomb-reason: {word}\r\n");
        self.status == status && self.text.contains(&word)
    }
}

fn parse_status(head: &str) -> u16 {
    let code = head.split(' ').nth(1).unwrap_or_default();
    code.parse().unwrap_or_default()
}

/// Requests `/` with a hostname.
pub async fn get(listener: SocketAddr, hostname: &str) -> PublicResponse {
    let asked = async {
        let mut stream = TcpStream::connect(listener).await.unwrap();
        let request = format!("GET / HTTP/1.1\r\nhost: {hostname}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        PublicResponse {
            status: parse_status(&text),
            text,
        }
    };
    timeout(TIMEOUT, asked).await.expect("an answer in time")
}

/// An upgraded connection, or the response instead of it.
pub async fn upgrade(listener: SocketAddr, hostname: &str) -> Result<TcpStream, PublicResponse> {
    let asked = async {
        let mut stream = TcpStream::connect(listener).await.unwrap();
        let request = format!(
            "GET / HTTP/1.1\r\nhost: {hostname}\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let text = read_head(&mut stream).await.expect("a head");
        match parse_status(&text) {
            101 => Ok(stream),
            status => Err(PublicResponse { status, text }),
        }
    };
    timeout(TIMEOUT, asked).await.expect("an answer in time")
}

/// Whether an upgraded connection echoes.
pub async fn echoes(stream: &mut TcpStream) -> bool {
    let exchanged = async {
        stream.write_all(b"hello").await.ok()?;
        let mut back = [0; 5];
        stream.read_exact(&mut back).await.ok()?;
        (&back == b"hello").then_some(())
    };
    timeout(TIMEOUT, exchanged).await.ok().flatten().is_some()
}
