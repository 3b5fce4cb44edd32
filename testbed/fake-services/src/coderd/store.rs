//! Everything coderd has in its database, and the few ways in which it changes.
//!
//! No rights, no licence and no requests here.

use std::collections::BTreeMap;

use aplomb_apimachinery::clock::uuid;
use jiff::Timestamp;

use super::config::Config;
use super::model::{Key, Organization, PRIMARY, Proxy};
use super::users::{User, digest, id_of};

/// As many characters as a key's plaintext has.
pub(super) const KEY_LENGTH: usize = 43;
/// As many as the part of a proxy's token after the colon.
const TOKEN_LENGTH: usize = 64;

/// The database.
#[derive(Clone, Debug)]
pub(super) struct Store {
    pub(super) users: Vec<User>,
    /// The first is the default one.
    pub(super) organizations: Vec<Organization>,
    /// By their age.
    pub(super) keys: Vec<Key>,
    pub(super) proxies: Vec<Proxy>,
    /// When the server was set up.
    pub(super) since: Timestamp,
    rng: fastrand::Rng,
}

impl Store {
    pub(super) fn new(config: &Config) -> Self {
        let primary = Proxy {
            id: id_of("deployment"),
            name: PRIMARY.to_owned(),
            display_name: "Default".to_owned(),
            registered: true,
            ..Proxy::default()
        };
        let since = config.clock.now();
        let names = config.organizations.iter();
        Self {
            users: config.users.iter().cloned().map(User::complete).collect(),
            organizations: names.map(|name| Organization::new(name)).collect(),
            keys: Vec::new(),
            proxies: vec![primary.complete(since, String::new)],
            since,
            rng: fastrand::Rng::with_seed(config.seed),
        }
    }

    pub(super) fn user(&self, token: &str) -> Option<&User> {
        self.users.iter().find(|user| user.has(token))
    }

    /// An organisation by name, by id, or as `default`.
    pub(super) fn organization(&self, word: &str) -> Option<&Organization> {
        if word == "default" {
            return self.organizations.first();
        }
        let mut all = self.organizations.iter();
        all.find(|it| it.name == word || it.id == word)
    }

    /// The keys of an organisation.
    pub(super) fn keys_of<'a>(&'a self, organization: &'a str) -> impl Iterator<Item = &'a Key> {
        let all = self.keys.iter();
        all.filter(move |key| key.organization == organization)
    }

    /// A key by its name, whatever its case.
    pub(super) fn key(&self, organization: &str, name: &str) -> Option<&Key> {
        let name = name.to_lowercase();
        let mut all = self.keys.iter();
        all.find(|key| key.organization == organization && key.name == name)
    }

    /// The key that a plaintext belongs to.
    pub(super) fn key_with(&self, secret: &str) -> Option<&Key> {
        self.key_with_digest(&digest(secret))
    }

    /// The same by the digest of the plaintext.
    pub(super) fn key_with_digest(&self, digest: &str) -> Option<&Key> {
        self.keys.iter().find(|key| key.secret_sha256 == digest)
    }

    /// Makes a key and gives its plaintext.
    pub(super) fn add_key(
        &mut self,
        now: Timestamp,
        organization: &str,
        name: &str,
        tags: BTreeMap<String, String>,
    ) -> String {
        let secret = self.secret(KEY_LENGTH);
        let key = Key {
            organization: organization.to_owned(),
            name: name.to_lowercase(),
            tags,
            secret_sha256: digest(&secret),
            ..Key::default()
        };
        let id = self.id();
        self.keys.push(key.complete(now, || id));
        secret
    }

    /// Takes a key away.
    pub(super) fn remove_key(&mut self, id: &str) -> Option<Key> {
        let at = self.keys.iter().position(|key| key.id == id)?;
        Some(self.keys.remove(at))
    }

    /// Where a proxy is, by its id, deleted or not, or by the name of one that is not, in its exact case.
    pub(super) fn proxy_at(&self, word: &str) -> Option<usize> {
        let at = |holds: &dyn Fn(&Proxy) -> bool| self.proxies.iter().position(holds);
        at(&|it| it.id == word).or_else(|| at(&|it| !it.deleted && it.name == word))
    }

    /// Whether a proxy that is not deleted has this name, whatever its case.
    pub(super) fn has_proxy(&self, name: &str, but: Option<usize>) -> bool {
        let mut all = self.proxies.iter().enumerate();
        all.any(|(at, it)| Some(at) != but && !it.deleted && it.name.eq_ignore_ascii_case(name))
    }

    /// A new token for a proxy: all of it, and its digest.
    pub(super) fn proxy_token(&mut self, id: &str) -> (String, String) {
        let token = format!("{id}:{}", self.secret(TOKEN_LENGTH));
        let digest = digest(&token);
        (token, digest)
    }

    pub(super) fn id(&mut self) -> String {
        uuid(self.rng.u128(..))
    }

    fn secret(&mut self, length: usize) -> String {
        (0..length).map(|_| self.rng.alphanumeric()).collect()
    }
}
