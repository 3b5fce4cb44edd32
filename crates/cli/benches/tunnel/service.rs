//! The origin: responds with a kilobyte to everything, on its own thread.

use std::convert::Infallible;
use std::net::TcpListener;
use std::thread;

use anyhow::Result;
use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::task::JoinSet;

static BODY: [u8; 1024] = [b'x'; 1024];

/// Starts it; returns its port.
pub(crate) fn start() -> Result<u16> {
    listen(|socket| async move {
        let service =
            service_fn(|_| async { Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(&BODY)))) });
        // Connections may end with an error when a client disconnects.
        let _ended = http1::Builder::new()
            .serve_connection(TokioIo::new(socket), service)
            .await;
    })
}

/// Serves each connection on a free port with `talk`, until the process ends.
pub(crate) fn listen<F>(talk: impl Fn(tokio::net::TcpStream) -> F + Send + 'static) -> Result<u16>
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::spawn(move || {
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let mut connections = JoinSet::new();
            loop {
                let (socket, _) = listener.accept().await?;
                socket.set_nodelay(true)?;
                while connections.try_join_next().is_some() {}
                connections.spawn(talk(socket));
            }
            #[allow(unreachable_code, reason = "it gives the block its type")]
            Ok::<_, std::io::Error>(())
        })
    });
    Ok(port)
}
