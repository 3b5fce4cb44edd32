//! A closed loop: each connection sends a request, waits for the whole response, and repeats.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::Subject;

#[derive(Clone, Debug)]
pub(crate) struct Figures {
    pub(crate) per_second: f64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    pub(crate) failed: usize,
}

/// The median by requests per second.
pub(crate) fn median(mut rounds: Vec<Figures>) -> Figures {
    rounds.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
    rounds.swap_remove(rounds.len() / 2)
}

pub(crate) fn run(way: &Subject, connections: usize, time: Duration) -> Result<Figures> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // A warm-up, so that first-time costs are not measured.
        run_connections(way, connections, time / 6).await?;
        run_connections(way, connections, time).await
    })
}

async fn run_connections(way: &Subject, connections: usize, time: Duration) -> Result<Figures> {
    let end = Instant::now() + time;
    let mut loops = JoinSet::new();
    for _ in 0..connections {
        loops.spawn(run_connection(way.address.clone(), way.host.clone(), end));
    }
    let (mut times, mut failed) = (Vec::new(), 0);
    while let Some(joined) = loops.join_next().await {
        let (mine, bad) = joined?.with_context(|| way.name)?;
        times.extend(mine);
        failed += bad;
    }
    ensure!(!times.is_empty(), "no responses from {}", way.name);
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    Ok(Figures {
        per_second: times.len() as f64 / time.as_secs_f64(),
        p50: at(50),
        p99: at(99),
        failed,
    })
}

async fn run_connection(address: String, host: String, end: Instant) -> Result<(Vec<Duration>, usize)> {
    let socket = TcpStream::connect(&address).await?;
    socket.set_nodelay(true)?;
    let (mut send, connection) = handshake(TokioIo::new(socket)).await?;
    let mut background = JoinSet::new();
    background.spawn(connection);
    let (mut times, mut failed) = (Vec::new(), 0);
    while Instant::now() < end {
        let began = Instant::now();
        if send_request(&mut send, &host).await? {
            times.push(began.elapsed());
        } else {
            failed += 1;
        }
    }
    Ok((times, failed))
}

async fn send_request(send: &mut SendRequest<Empty<Bytes>>, host: &str) -> Result<bool> {
    send.ready().await?;
    let request = Request::get("/").header("host", host).body(Empty::new())?;
    let response = send.send_request(request).await?;
    let good = response.status() == 200;
    response.into_body().collect().await?;
    Ok(good)
}
