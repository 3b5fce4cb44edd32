//! Accounts that call the simulator in virtual time; requests are counted from its log.

mod moves;
mod reads;
mod scarcity;

use aplomb::leadership::fence::Fence;
use aplomb_api::egress::FloatingIpRef;
use aplomb_fake_services::hcloud::{Change, Config, Entry, FakeHcloud};
use jiff::Timestamp;
use serde_json::json;
use tower::util::BoxCloneSyncService;

use super::*;
use crate::egress::{ObservedFloatingIp, ProviderTrouble};

const SECRET: &str = "jEheVytlAoFl7F8MqUQ7jAo2hOXASztX0123456789abcdefghijklmnopqrstuv";

/// A simulator and an account in front of it.
struct Bench {
    hetzner: FakeHcloud,
    clouds: HcloudAccounts,
    account: HcloudAccount,
    fence: Fence,
}

impl Bench {
    /// Two servers (1, 2), and `ips` floating IPs (from 10 on, `ip-0`, `ip-1`, ...) on the first.
    fn new(ips: u64, bend: impl FnOnce(&mut Config)) -> Self {
        let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        let clock = aplomb_apimachinery::clock::Clock::new(epoch, 7);
        let mut config = Config::new(clock.clone(), 7, SECRET);
        bend(&mut config);
        let hetzner = FakeHcloud::new(config);
        let ip = |at: u64| {
            let address = format!("198.51.100.{}", at % 250);
            json!({"id": 10 + at, "name": format!("ip-{at}"), "ip": address, "server": 1})
        };
        let state = json!({
            "servers": [{"id": 1, "name": "one"}, {"id": 2, "name": "two"}],
            "floating_ips": (0..ips).map(ip).collect::<Vec<_>>(),
        });
        hetzner.change(change(state)).expect("it fits");
        let service = hetzner.service();
        let clouds = HcloudAccounts::new(HcloudSettings {
            endpoint: "http://sim.example.com/v1".to_owned(),
            connect: Arc::new(move || BoxCloneSyncService::new(service.clone())),
            telemetry: Telemetry::default(),
            egress: EgressMetrics::default(),
            clock: Clock::new(move || clock.now()),
            budgets: LimiterRegistry::default(),
        });
        let account = clouds.account_for(&object_key(0), &token(SECRET), "hcloud");
        Self {
            hetzner,
            clouds,
            account,
            fence: Fence::always_open(),
        }
    }

    async fn read_routine(&self, at: u64, max_age: u64) -> Result<ObservedFloatingIp, ProviderTrouble> {
        self.read_with(at, max_age, false).await
    }

    async fn read_with(&self, at: u64, max_age: u64, urgent: bool) -> Result<ObservedFloatingIp, ProviderTrouble> {
        let (who, which) = (object_key(at), by_name(&format!("ip-{at}")));
        let max_age = Duration::from_secs(max_age);
        self.account
            .refresh(&who, &which, max_age, urgent, deadline(), &self.fence)
            .await
    }

    /// The requests to the simulator since entry `n`.
    fn requests(&self, n: usize) -> Vec<Entry> {
        self.hetzner.requests().split_off(n)
    }

    fn count(&self) -> usize {
        self.hetzner.requests().len()
    }

    fn set_remaining(&self, remaining: u64) {
        let bucket = json!({"buckets": [{"name": "default", "remaining": remaining}]});
        self.hetzner.change(change(bucket)).expect("it fits");
    }
}

fn change(value: serde_json::Value) -> Change {
    serde_json::from_value(value).expect("a change")
}

fn token(text: &str) -> ApiToken {
    ApiToken::new(text).expect("a token")
}

fn object_key(at: u64) -> ObjectKey {
    ObjectKey::new(None, &format!("egress-{at}"))
}

fn by_name(name: &str) -> FloatingIpRef {
    FloatingIpRef {
        name: Some(name.to_owned()),
        id: None,
    }
}

fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

#[tokio::test(start_paused = true)]
async fn the_same_token_is_the_same_account_wherever_it_was_read_from() {
    let bench = Bench::new(1, |_| {});
    bench.read_routine(0, 30).await.expect("seen");
    let text = format!("{SECRET}\n");
    let same = bench
        .clouds
        .account_for(&object_key(1), &token(&text), "another-secret");
    assert!(same.last_seen(&by_name("ip-0")).is_some());
    assert_eq!(format!("{same:?}"), r#"HcloudAccount("hcloud")"#);
    let other = token("another-token-altogether");
    let other = bench.clouds.account_for(&object_key(1), &other, "other");
    assert!(other.last_seen(&by_name("ip-0")).is_none());
    let all = format!("{:?}", bench.clouds);
    assert!(all.contains("hcloud") && all.contains("other"), "{all}");
}

#[tokio::test(start_paused = true)]
async fn a_token_that_was_replaced_everywhere_is_dropped() {
    let bench = Bench::new(2, |_| {});
    for at in [0, 1] {
        bench.read_routine(at, 30).await.expect("seen");
    }
    let Bench { clouds, account, .. } = bench;
    drop(account);
    let new = token("the-token-that-replaces-it");
    drop(clouds.account_for(&object_key(0), &new, "new"));
    assert!(format!("{clouds:?}").contains("hcloud"), "the account has a user");
    drop(clouds.account_for(&object_key(1), &new, "new"));
    assert_eq!(format!("{clouds:?}"), r#"[HcloudAccount("new")]"#);
}
