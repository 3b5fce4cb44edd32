//! Fifty requests per second during a test, and a watch of Ready: was it ever True while requests
//! failed?

use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Result, ensure};
use aplomb_api::tunnel::HttpProxy;
use futures::StreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use crate::stage::TIMEOUT;

const REQUEST_INTERVAL: Duration = Duration::from_millis(20);
/// Time limit of a response: a late one on a busy machine was not dropped.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The interval of proofs in these tests.
const MAX_PROOF_DELAY: Duration = Duration::from_secs(4);
/// How many intervals a slow machine gets before it is a failure. In virtual time it is one.
const ALLOWED_FAILURES: u32 = 3;

#[derive(Clone, Debug)]
struct Request {
    began: Instant,
    ended: Instant,
    failure: Option<String>,
}

#[derive(Default)]
struct Seen {
    requests: Vec<Request>,
    /// Changes of Ready, with their time.
    ready: Vec<(Instant, bool)>,
    faults: Vec<Instant>,
}

/// The target of a prober.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) hostname: String,
    /// Public listeners, used in turn.
    pub(crate) listeners: Vec<String>,
}

pub(crate) struct Prober {
    target: Target,
    seen: Arc<Mutex<Seen>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The result.
#[derive(Debug)]
pub(crate) struct ProbeReport {
    pub(crate) requests: usize,
    pub(crate) failures: usize,
    /// How many requests failed while Ready was True, later than one interval of proofs after a fault.
    overlap: usize,
    /// Those that even a slow machine does not excuse.
    errors: Vec<String>,
}

impl Prober {
    pub(crate) fn start(kubeconfig: &std::path::Path, target: Target) -> Result<Self> {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (stop, stopped) = oneshot::channel();
        let (config, at, to) = (kubeconfig.to_owned(), target.clone(), Arc::clone(&seen));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! { biased;
                    _ = stopped => {}
                    () = probe(&at, &to) => {}
                    ended = watch_ready(&config, &at, &to) => eprintln!("the watch of {} ended: {ended:?}", at.name),
                }
            });
        });
        Ok(Self {
            target,
            seen,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Records that the test broke something now.
    pub(crate) fn record_fault(&self) {
        self.lock().faults.push(Instant::now());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().expect("no panic while holding the lock")
    }

    /// Waits until ten requests in a row succeed that began after `since`; returns when the first one was answered.
    pub(crate) async fn recovery_time(&self, since: Instant) -> Result<Duration> {
        let end = Instant::now() + TIMEOUT;
        while Instant::now() < end {
            if let Some(first) = self.first_of_ten_successes(since) {
                return Ok(first.saturating_duration_since(since));
            }
            sleep(REQUEST_INTERVAL).await;
        }
        anyhow::bail!(
            "{} carries no traffic within {TIMEOUT:?}: {}",
            self.target.name,
            self.last_request()
        )
    }

    fn first_of_ten_successes(&self, since: Instant) -> Option<Instant> {
        let seen = self.lock();
        let mut later: Vec<_> = seen.requests.iter().filter(|r| r.began >= since).collect();
        later.sort_by_key(|request| request.began);
        let good = later.iter().rev().take_while(|r| r.failure.is_none()).count();
        let answered = later.iter().rev().take(good).map(|request| request.ended);
        answered.min().filter(|_| good >= 10)
    }

    fn last_request(&self) -> String {
        let seen = self.lock();
        let failure = seen.requests.iter().rev().find_map(|r| r.failure.clone());
        failure.unwrap_or_default()
    }

    /// When Ready first became `ready` after `since`.
    pub(crate) async fn wait_ready(&self, ready: bool, since: Instant) -> Result<Duration> {
        let end = Instant::now() + TIMEOUT;
        loop {
            let found = {
                let seen = self.lock();
                let mut later = seen.ready.iter().filter(|(at, _)| *at >= since);
                later.find(|(_, is)| *is == ready).map(|(at, _)| *at)
            };
            if let Some(at) = found {
                return Ok(at - since);
            }
            ensure!(
                Instant::now() < end,
                "{}: Ready is not {ready} within {TIMEOUT:?}",
                self.target.name
            );
            sleep(REQUEST_INTERVAL).await;
        }
    }

    /// Stops it, prints the result, and fails if Ready was True while requests failed.
    pub(crate) fn finish(mut self) -> Result<ProbeReport> {
        if let Some(stop) = self.stop.take() {
            let _ended = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
        let verdict = evaluate(&self.lock());
        println!(
            "        prober of {}: {} requests, {} failed, {} of them while Ready was True beyond one proof interval after a fault",
            self.target.name, verdict.requests, verdict.failures, verdict.overlap
        );
        let first: Vec<_> = verdict.errors.iter().take(5).collect();
        ensure!(
            verdict.errors.is_empty(),
            "Ready was True while requests failed: {first:?}"
        );
        Ok(verdict)
    }
}

/// A failed request counts if Ready was True from its start to its end, and no fault excuses it.
fn evaluate(seen: &Seen) -> ProbeReport {
    let failed: Vec<_> = seen.requests.iter().filter(|r| r.failure.is_some()).collect();
    let ready_throughout = |request: &Request| {
        let before = seen.ready.iter().rev().find(|(at, _)| *at <= request.began);
        let during = |(at, is): &(Instant, bool)| *at > request.began && *at <= request.ended && !is;
        before.is_some_and(|(_, is)| *is) && !seen.ready.iter().any(during)
    };
    let excused = |request: &Request, after: Duration| {
        let near = |fault: &Instant| request.ended >= *fault && request.began <= *fault + after;
        seen.faults.iter().any(near)
    };
    let overlap = |after| {
        let failed = failed.iter();
        failed.filter(move |r| ready_throughout(r) && !excused(r, after))
    };
    let started = seen.requests.first().map(|r| r.began);
    let told = |request: &&&Request| {
        let at = started.map(|started| request.began - started);
        format!("{at:.2?} {}", request.failure.as_deref().unwrap_or_default())
    };
    ProbeReport {
        requests: seen.requests.len(),
        failures: failed.len(),
        overlap: overlap(MAX_PROOF_DELAY).count(),
        errors: overlap(ALLOWED_FAILURES * MAX_PROOF_DELAY)
            .map(|request| told(&request))
            .collect(),
    }
}

async fn probe(target: &Target, seen: &Mutex<Seen>) {
    let client = reqwest::Client::builder()
        .no_proxy()
        .build()
        .expect("a client can be built");
    let mut ticks = interval(REQUEST_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut running = JoinSet::new();
    let mut turn = 0;
    loop {
        tokio::select! { biased;
            Some(Ok(request)) = running.join_next() => {
                seen.lock().expect("no panic while holding the lock").requests.push(request);
            }
            _ = ticks.tick() => {
                turn += 1;
                let listener = &target.listeners[turn % target.listeners.len()];
                let request = client
                    .get(format!("http://{listener}/"))
                    .header("host", &target.hostname);
                running.spawn(send_request(request));
            }
        }
    }
}

async fn send_request(request: reqwest::RequestBuilder) -> Request {
    let began = Instant::now();
    let answered = timeout(REQUEST_TIMEOUT, async {
        let response = request.send().await?;
        let (status, headers) = (response.status(), response.headers().clone());
        response.bytes().await?;
        Ok::<_, reqwest::Error>((status, headers))
    });
    let failure = match answered.await {
        Ok(Ok((status, _))) if status == 200 => None,
        Ok(Ok((status, headers))) => Some(format!("{status} {:?}", headers.get("x-aplomb-reason"))),
        Ok(Err(error)) => Some(format!("{error:?}")),
        Err(_) => Some("no response".to_owned()),
    };
    Request {
        began,
        ended: Instant::now(),
        failure,
    }
}

async fn watch_ready(kubeconfig: &std::path::Path, target: &Target, seen: &Mutex<Seen>) -> Result<()> {
    let config = kube::config::Kubeconfig::read_from(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(config, &Default::default()).await?;
    let api: Api<HttpProxy> = Api::namespaced(Client::try_from(config)?, &target.namespace);
    let only = watcher::Config::default().fields(&format!("metadata.name={}", target.name));
    let mut events = watcher::watcher(api, only).boxed();
    while let Some(event) = events.next().await {
        let ready = match event {
            Ok(Event::Apply(proxy) | Event::InitApply(proxy)) => is_ready(&proxy),
            Ok(Event::Delete(_)) => false,
            _ => continue,
        };
        let mut seen = seen.lock().expect("no panic while holding the lock");
        if seen.ready.last().map(|(_, was)| *was) != Some(ready) {
            seen.ready.push((Instant::now(), ready));
        }
    }
    Ok(())
}

/// Whether Ready is True.
pub(crate) fn is_ready(proxy: &HttpProxy) -> bool {
    let generation = proxy.metadata.generation;
    let status = proxy.status.as_ref();
    let mut conditions = status.into_iter().flat_map(|status| &status.conditions);
    conditions.any(|condition| {
        condition.type_ == "Ready" && condition.status == "True" && condition.observed_generation == generation
    })
}
