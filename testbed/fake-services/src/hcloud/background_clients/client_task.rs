//! What noise clients do when they wake, and when they do it again.
//!
//! Their answers are not written out: only the bucket, the locks and the log notice them.

use std::time::Duration;

use jiff::Timestamp;

use super::{BackgroundClients, Shape, Wake};
use crate::hcloud::core::HcloudCore;
use crate::hcloud::error::ApiError;
use crate::hcloud::log::Entry;
use crate::hcloud::model::Status;
use crate::hcloud::store::after;

/// What a Cluster API object does not do for this long after a refusal.
const CAPH_REST: Duration = Duration::from_secs(5 * 60);
/// How often Cluster API looks at each object again.
const CAPH_SYNC: f64 = 180.0;
const CCM_RATE: f64 = 0.1;
const CSI_RATE: f64 = 1.0 / 60.0;
const CSI_POLL: Duration = Duration::from_secs(3);
const CSI_LONGEST_POLL: Duration = Duration::from_secs(10);
/// The Go library gives up after this many repetitions.
const RETRIES: u32 = 5;

/// One thing to do.
#[derive(Clone, Debug)]
pub(crate) enum ClientTask {
    /// Read something, then plan the next read.
    Read { tries: u32 },
    /// Look after one object, then plan its next look.
    Object { object: u64, looks: u64, tries: u32 },
    /// Attach a volume to some server.
    Attach { volume: u64, tries: u32 },
    /// Ask whether an action is over.
    Poll { action: u64, wait: Duration },
    /// Take whatever is above the level it holds.
    Hold,
}

/// A request, as far as the log knows it.
struct Sent<'a> {
    method: &'a str,
    path: String,
    query: String,
}

impl Sent<'_> {
    fn get(path: impl Into<String>, query: impl Into<String>) -> Self {
        let (method, path, query) = ("GET", path.into(), query.into());
        Self { method, path, query }
    }
}

impl HcloudCore {
    /// Starts a noise client; its first requests are spread over its period.
    pub(in crate::hcloud) fn add_noise(&mut self, now: Timestamp, noise: BackgroundClients) {
        let mut rng = fastrand::Rng::with_seed(self.config.seed ^ name_seed(&noise.name));
        let first = self.first(now, &noise, &mut rng);
        self.noise.add(noise, rng, first);
    }

    fn first(
        &self,
        now: Timestamp,
        noise: &BackgroundClients,
        rng: &mut fastrand::Rng,
    ) -> Vec<(Timestamp, ClientTask)> {
        if noise.hold_at.is_some() {
            return vec![(now, ClientTask::Hold)];
        }
        let period = self.period(noise);
        let mut within = |errand| (after(now, period.mul_f64(rng.f64())), errand);
        match noise.shape {
            Some(Shape::Caph) => (0..self.objects(noise))
                .map(|object| {
                    within(ClientTask::Object {
                        object,
                        looks: 0,
                        tries: 0,
                    })
                })
                .collect(),
            Some(Shape::Csi) => vec![within(ClientTask::Attach { volume: 1, tries: 0 })],
            Some(Shape::Ccm) | None => vec![within(ClientTask::Read { tries: 0 })],
        }
    }

    /// Does what a client woke up for.
    pub(in crate::hcloud) fn run_errand(&mut self, at: Timestamp, mut wake: Wake) {
        match wake.errand.clone() {
            ClientTask::Read { tries } => self.read(at, &mut wake, tries),
            ClientTask::Object { object, looks, tries } => self.look(at, &mut wake, (object, looks), tries),
            ClientTask::Attach { volume, tries } => self.attach(at, &mut wake, volume, tries),
            ClientTask::Poll { action, wait } => self.poll(at, &wake, action, wait),
            ClientTask::Hold => self.hold(at, &mut wake),
        }
    }

    fn read(&mut self, at: Timestamp, wake: &mut Wake, tries: u32) {
        let sent = Sent::get("/v1/servers", "page=1&per_page=50");
        let accepted = self.spend(at, &wake.client, sent);
        if !accepted && wake.client.shape.is_some() && tries < RETRIES {
            let errand = ClientTask::Read { tries: tries + 1 };
            let pause = backoff(tries, &mut wake.rng);
            return self.plan(at, wake, pause, errand);
        }
        let errand = ClientTask::Read { tries: 0 };
        let pause = self.pause(wake);
        self.plan(at, wake, pause, errand);
    }

    /// Server and actions in turn.
    fn look(&mut self, at: Timestamp, wake: &mut Wake, (object, looks): (u64, u64), tries: u32) {
        let server = self.server_of(object);
        let sent = if looks.is_multiple_of(2) {
            Sent::get(format!("/v1/servers/{server}"), "")
        } else {
            Sent::get("/v1/actions", format!("id={server}"))
        };
        let accepted = self.spend(at, &wake.client, sent);
        let again = |looks, tries| ClientTask::Object { object, looks, tries };
        match (accepted, tries < RETRIES) {
            (true, _) => {
                let pause = self.pause(wake);
                self.plan(at, wake, pause, again(looks + 1, 0));
            }
            (false, true) => {
                let pause = backoff(tries, &mut wake.rng);
                self.plan(at, wake, pause, again(looks, tries + 1));
            }
            (false, false) => self.plan(at, wake, CAPH_REST, again(looks, 0)),
        }
    }

    fn attach(&mut self, at: Timestamp, wake: &mut Wake, volume: u64, tries: u32) {
        let course = self.draw_course();
        let server = self.server_of(wake.rng.u64(..));
        let sent = Sent {
            method: "POST",
            path: format!("/v1/volumes/{volume}/actions/attach"),
            query: String::new(),
        };
        let begun = self.spend_with(at, &wake.client, sent, |core| {
            let store = &mut core.store;
            let action = store.attach_volume(at, "attach_volume", volume, server, course)?;
            Ok((201, action.id))
        });
        let retry = ClientTask::Attach {
            volume,
            tries: tries + 1,
        };
        let next = ClientTask::Attach {
            volume: volume + 1,
            tries: 0,
        };
        match begun {
            Ok(action) => {
                let wait = CSI_POLL;
                self.plan(at, wake, wait, ClientTask::Poll { action, wait });
                let pause = self.pause(wake);
                self.plan(at, wake, pause, next);
            }
            Err(_) if tries < RETRIES => {
                let pause = backoff(tries, &mut wake.rng);
                self.plan(at, wake, pause, retry);
            }
            Err(_) => {
                let pause = self.pause(wake);
                self.plan(at, wake, pause, next);
            }
        }
    }

    fn poll(&mut self, at: Timestamp, wake: &Wake, action: u64, wait: Duration) {
        let sent = Sent::get("/v1/actions", format!("id={action}"));
        let known = self.spend(at, &wake.client, sent);
        let found = self.store.actions.get(&action);
        let over = found.is_none_or(|action| action.status != Status::Running);
        if !(known && over) {
            let wait = (wait * 2).min(CSI_LONGEST_POLL);
            self.plan(at, wake, wait, ClientTask::Poll { action, wait });
        }
    }

    fn hold(&mut self, at: Timestamp, wake: &mut Wake) {
        let most = wake.client.hold_at.unwrap_or(0);
        let target = wake.rng.u64(..=most);
        let name = self.noise_bucket(&wake.client);
        while self.bucket(&name).peek(at).remaining > target {
            let sent = Sent::get("/v1/servers", "");
            self.spend(at, &wake.client, sent);
        }
        let next = self.bucket(&name).next_token();
        let next = next.unwrap_or_else(|| after(at, Duration::from_secs(1)));
        self.noise.plan(&wake.client.name, next, ClientTask::Hold);
    }

    fn plan(&mut self, at: Timestamp, wake: &Wake, pause: Duration, errand: ClientTask) {
        self.noise.plan(&wake.client.name, after(at, pause), errand);
    }

    /// How long until the client does the same again. Random for a plain rate, about regular for
    /// a habit.
    fn pause(&self, wake: &mut Wake) -> Duration {
        let period = self.period(&wake.client);
        let share = match wake.client.shape {
            // 1 - x is never 0, so the logarithm is finite.
            None => -(1.0 - wake.rng.f64()).ln(),
            Some(_) => 0.9 + 0.2 * wake.rng.f64(),
        };
        // Never nothing: a client that does not let time pass would never let anybody else.
        period.mul_f64(share).max(Duration::from_micros(1))
    }

    #[allow(clippy::cast_precision_loss, reason = "nobody simulates 2^52 objects")]
    fn period(&self, noise: &BackgroundClients) -> Duration {
        let objects = self.objects(noise) as f64;
        let seconds = match (noise.shape, noise.rate) {
            (Some(Shape::Caph), None) => CAPH_SYNC / 2.0,
            (Some(Shape::Caph), Some(rate)) => objects / rate,
            (Some(Shape::Ccm), rate) => 1.0 / rate.unwrap_or(CCM_RATE),
            (Some(Shape::Csi), rate) => 1.0 / rate.unwrap_or(CSI_RATE),
            (None, rate) => 1.0 / rate.unwrap_or(1.0),
        };
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX / 4)
    }

    fn objects(&self, noise: &BackgroundClients) -> u64 {
        let servers = u64::try_from(self.store.servers.len()).unwrap_or(u64::MAX);
        noise.objects.unwrap_or(servers.max(1))
    }

    /// Some server for any number; 0 when there is none.
    fn server_of(&self, number: u64) -> u64 {
        let servers = self.store.servers.len().max(1);
        let at = usize::try_from(number).unwrap_or(0) % servers;
        self.store.servers.keys().nth(at).copied().unwrap_or(0)
    }

    fn noise_bucket(&self, noise: &BackgroundClients) -> String {
        let first = || self.bucket_name(0);
        noise.bucket.clone().unwrap_or_else(first)
    }

    /// Sends a read; whether it was let in.
    fn spend(&mut self, at: Timestamp, noise: &BackgroundClients, sent: Sent<'_>) -> bool {
        let sent = self.spend_with(at, noise, sent, |_| Ok((200, 0)));
        sent.is_ok()
    }

    /// Sends a request with an effect.
    fn spend_with(
        &mut self,
        at: Timestamp,
        noise: &BackgroundClients,
        sent: Sent<'_>,
        effect: impl FnOnce(&mut Self) -> Result<(u16, u64), ApiError>,
    ) -> Result<u64, ApiError> {
        let bucket = self.noise_bucket(noise);
        let (level, done) = match self.bucket(&bucket).take(at) {
            Ok(level) => (level, effect(self)),
            Err(level) => (level, Err(ApiError::rate_limited(level.limit, None))),
        };
        let status = match &done {
            Ok((status, _)) => *status,
            Err(error) => error.status.as_u16(),
        };
        self.log.push(|n| Entry {
            n,
            time: at,
            client: noise.name.clone(),
            token: None,
            bucket,
            method: sent.method.to_owned(),
            path: sent.path,
            query: sent.query,
            status: Some(status),
            code: done.as_ref().err().map(|error| error.code.clone()),
            remaining: level.remaining,
            lane: None,
            fault: None,
        });
        done.map(|(_, made)| made)
    }
}

/// As the Go library waits: a second, and up to the next power of two.
fn backoff(tries: u32, rng: &mut fastrand::Rng) -> Duration {
    let spread = f64::from((1_u32 << tries.min(6)) - 1);
    Duration::from_secs_f64(1.0 + spread * rng.f64())
}

/// A number of its own for every name, the same in every run.
fn name_seed(name: &str) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325;
    name.bytes().fold(start, |seed, byte| {
        (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
