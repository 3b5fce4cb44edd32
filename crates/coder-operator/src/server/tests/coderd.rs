//! Servers in front of the simulated coderd, counted from its request log.

use std::collections::BTreeMap;

use aplomb_fake_services::coderd::{Config, FakeCoderd, Role, User, Version};
use futures::future::join_all;

use super::*;
use crate::client::{CallErrorClass, Entitlement, ProxyDisplay};

const OWNER: &str = "owner-token-of-the-simulated-server";

/// The simulator, and its callers.
struct Lab {
    coderd: FakeCoderd,
    servers: ServerPool,
    fence: Fence,
}

impl Lab {
    fn new(bend: impl FnOnce(&mut Config)) -> Self {
        let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        let clock = aplomb_apimachinery::clock::Clock::new(epoch, 7);
        let mut config = Config::new(clock.clone(), 7, OWNER);
        bend(&mut config);
        let coderd = FakeCoderd::new(config);
        let service = coderd.service();
        let servers = ServerPool::new(ServerPoolSettings {
            connect: Arc::new(move |_| Ok(BoxCloneSyncService::new(service.clone()))),
            clock: Clock::new(move || clock.now()),
            telemetry: CoderMetrics::default(),
            limiters: LimiterRegistry::default(),
            seed: 7,
            notify: Arc::new(|_| {}),
        });
        Self {
            coderd,
            servers,
            fence: Fence::always_open(),
        }
    }

    fn server(&self, token: &str) -> ServerClient {
        let token = ApiToken::new(token).expect("a token");
        let url = "http://coder.example.com";
        self.servers.client(url, None, &token).expect("a server")
    }

    /// A deadline of an hour: these calls spend it in the queue, not in flight.
    fn caller<'a>(&'a self, who: &'a ObjectRef, bypass: bool) -> Caller<'a> {
        Caller {
            object: who,
            bypass,
            fence: &self.fence,
            deadline: Instant::now() + Duration::from_secs(3600),
            limited: None,
        }
    }

    /// Makes so many keys at once, each for an object of its own, however long it takes.
    async fn create(&self, token: &str, prefix: &str, many: usize, bypass: bool) -> Duration {
        let (server, begin, tags) = (self.server(token), Instant::now(), BTreeMap::new());
        let make = async |n: usize| {
            let name = format!("{prefix}-{n}");
            let who = object(&name);
            loop {
                let asker = self.caller(&who, bypass);
                let made = async {
                    let organization = server.organization(&asker, "default").await?;
                    server.keys(&asker, &organization.id, MINUTE).await?;
                    let organization = organization.id;
                    server.create_key(&asker, &organization, &name, &tags).await
                };
                match made.await {
                    Ok(_) => return,
                    Err(Pushback::Later { until, .. }) => tokio::time::sleep_until(until).await,
                    Err(error) => panic!("{error}"),
                }
            }
        };
        join_all((0..many).map(make)).await;
        begin.elapsed()
    }

    fn count_answers(&self, status: u16) -> usize {
        let requests = self.coderd.requests();
        let these = requests.iter();
        these.filter(|it| it.status == Some(status)).count()
    }
}

#[tokio::test(start_paused = true)]
async fn keys_and_proxies_come_and_go() {
    let lab = Lab::new(|_| {});
    let (server, who) = (lab.server(OWNER), object("red"));
    let asker = lab.caller(&who, false);
    let licence = server.entitlements(&asker, MINUTE).await.expect("read");
    assert_eq!(licence.value.provisioners.entitlement, Entitlement::Entitled);
    assert_eq!(licence.value.proxies.entitlement, Entitlement::Entitled);
    let found = server.organization(&asker, "default").await.expect("found");
    let tags: BTreeMap<_, _> = [("a".to_owned(), "b".to_owned())].into();
    let made = server.create_key(&asker, &found.id, "team", &tags).await;
    let _daemon = lab.coderd.connect_daemon(made.expect("made").reveal());
    sleep(Duration::from_secs(1)).await;
    let since = MaxAge::Since(Instant::now());
    let keys = server.keys(&asker, &found.id, since).await.expect("a list");
    assert_eq!(keys.value[0].tags, Some(tags.clone()));
    assert!(keys.value[0].created_at <= server.now());
    let daemons = server.daemons(&asker, &found.id, since).await;
    let daemons = daemons.expect("a list");
    let ours = daemons.value.iter().find(|it| it.key.name == "team");
    let ours = ours.and_then(|it| it.daemons.as_ref());
    assert_eq!(ours.map(Vec::len), Some(1));
    let twice = server.create_key(&asker, &found.id, "team", &tags).await;
    assert_eq!(error_class(twice), Some(CallErrorClass::Exists));
    let gone = server.delete_key(&asker, &found.id, "team").await;
    gone.expect("gone");
    assert_eq!(lab.coderd.keys().len(), 0);

    let looks = ProxyDisplay {
        name: "eu".to_owned(),
        display_name: "Europe".to_owned(),
        icon: "/emojis/1f5fa.png".to_owned(),
    };
    let first = server.create_proxy(&asker, &looks).await.expect("made");
    let (id, first) = (first.proxy.id, first.token.expect("a token"));
    let second = server.patch_proxy(&asker, &id, &looks, true).await;
    assert_ne!(second.expect("patched").token, Some(first));
    server.delete_proxy(&asker, &id).await.expect("gone");
    let none = server.proxy(&asker, "eu", MINUTE).await.expect("looked");
    assert_eq!(none.value, None);
    assert_eq!(lab.count_answers(429), 0);
}

#[tokio::test(start_paused = true)]
async fn many_objects_use_the_limit_up_and_never_exceed_it() {
    let lab = Lab::new(|config| config.limit = 60);
    let took = lab.create(OWNER, "k", 300, false).await;
    assert_eq!(lab.coderd.keys().len(), 300);
    assert_eq!(lab.count_answers(429), 0);
    // 60 in the first minute, and while they fade from the second one for each second that passes: the
    // 301st call, for the list is one more, can go after 301 seconds.
    let least = Duration::from_secs(301);
    assert!(took < least.mul_f64(1.1), "{took:?} of {least:?}");
}

#[tokio::test(start_paused = true)]
async fn two_tokens_of_one_user_share_what_there_is() {
    for version in [Version::new(2, 36), Version::new(2, 31)] {
        let lab = Lab::new(|config| {
            config.limit = 20;
            config.version = version;
            let second = User::new("admin", Role::Owner, "another-token-of-the-same-user");
            config.users[0].tokens_sha256.extend(second.tokens_sha256);
        });
        tokio::join!(
            lab.create(OWNER, "a", 25, false),
            lab.create("another-token-of-the-same-user", "b", 25, false),
        );
        assert_eq!(lab.coderd.keys().len(), 50);
        assert_eq!(lab.count_answers(429), 0, "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_an_owner_may_bypass_the_limiter() {
    let lab = Lab::new(|config| {
        config.limit = 10;
        let admin = User::new("team", Role::TemplateAdmin, "token-of-a-template-admin");
        config.users.push(admin);
    });
    let took = lab.create(OWNER, "o", 100, true).await;
    assert!(took < Duration::from_secs(30), "{took:?}");
    assert_eq!(lab.count_answers(429) + lab.count_answers(428), 0);
    lab.create("token-of-a-template-admin", "t", 30, true).await;
    assert_eq!(lab.coderd.keys().len(), 130);
    assert_eq!((lab.count_answers(428), lab.count_answers(429)), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_old_server_that_ignores_the_header_is_not_overrun() {
    let lab = Lab::new(|config| {
        config.limit = 10;
        config.version = Version::new(2, 30);
    });
    lab.create(OWNER, "o", 30, true).await;
    assert_eq!(lab.count_answers(429), 0);
    assert_eq!(lab.server(OWNER).bypass_state(), BypassState::Ineffective);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_a_license_is_classified() {
    let lab = Lab::new(|config| config.licensed = false);
    let (server, who) = (lab.server(OWNER), object("red"));
    let asker = lab.caller(&who, false);
    let licence = server.entitlements(&asker, MINUTE).await.expect("read");
    assert_ne!(licence.value.provisioners.entitlement, Entitlement::Entitled);
    let found = server.organization(&asker, "default").await.expect("found");
    let keys = server.keys(&asker, &found.id, MINUTE).await;
    assert_eq!(error_class(keys), Some(CallErrorClass::Forbidden));
    let lab = Lab::new(|config| config.agpl = true);
    let licence = lab.server(OWNER).entitlements(&lab.caller(&who, false), MINUTE).await;
    assert_eq!(error_class(licence), Some(CallErrorClass::Missing));
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_unknown_is_refused() {
    let lab = Lab::new(|_| {});
    let who = object("red");
    let server = lab.server("a-token-that-nobody-knows");
    let answer = server.organization(&lab.caller(&who, true), "default").await;
    assert_eq!(error_class(answer), Some(CallErrorClass::Token));
}
