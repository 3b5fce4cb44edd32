//! A service, and a stream of requests to it through a tunnel. The test sets the gateways that are used, like the
//! endpoints of a Service: a gateway is removed before it stops.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval};

const REQUEST_INTERVAL: Duration = Duration::from_millis(50);
const TIMEOUT: Duration = Duration::from_secs(60);
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhere\n";

/// Starts a service that responds to everything with 200; returns its port. It ends with the test.
pub(crate) fn origin() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut head = [0; 4096];
                let _read = stream.read(&mut head);
                let _written = stream.write_all(RESPONSE);
            });
        }
    });
    Ok(port)
}

/// The gateway addresses, used in turn.
pub(crate) type Endpoints = Arc<Mutex<Vec<String>>>;

pub(crate) struct Traffic {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<(usize, Vec<String>)>,
}

impl Traffic {
    /// Twenty requests per second for `hostname`.
    pub(crate) fn start(endpoints: &Endpoints, hostname: &'static str) -> Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let endpoints = Arc::clone(endpoints);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let client = reqwest::Client::builder().no_proxy().timeout(TIMEOUT);
        let client = client.build()?;
        let thread = thread::spawn(move || runtime.block_on(send_requests(&client, &endpoints, hostname, stopped)));
        Ok(Self { stop, thread })
    }

    /// Stops it; an error if a request failed.
    pub(crate) fn finish(self) -> Result<()> {
        let _told = self.stop.send(());
        let Ok((sent, failed)) = self.thread.join() else {
            anyhow::bail!("the stream of requests stopped");
        };
        println!("        {sent} requests, {} failed", failed.len());
        let first: Vec<_> = failed.iter().take(5).collect();
        ensure!(failed.is_empty(), "{first:?}");
        ensure!(sent > 50, "only {sent} requests");
        Ok(())
    }
}

async fn send_requests(
    client: &reqwest::Client,
    endpoints: &Endpoints,
    hostname: &str,
    mut stopped: oneshot::Receiver<()>,
) -> (usize, Vec<String>) {
    let mut ticks = interval(REQUEST_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let (mut sent, mut failed) = (0, Vec::new());
    loop {
        tokio::select! { biased;
            _ = &mut stopped => return (sent, failed),
            _ = ticks.tick() => {}
        }
        let all = endpoints.lock().expect("no panic while holding the lock").clone();
        let Some(to) = all.get(sent % all.len().max(1)) else {
            continue;
        };
        sent += 1;
        let request = client.get(format!("http://{to}/")).header("host", hostname);
        match request.send().await {
            Ok(answer) if answer.status() == 200 => {}
            Ok(answer) => failed.push(format!("{} {:?}", answer.status(), answer.headers())),
            Err(error) => failed.push(format!("{error:?}")),
        }
    }
}
