//! How a server is put together: settings, then the store, the kinds and what every cluster has.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use std::time::Duration;

use aplomb_apimachinery::clock::Clock;
use aplomb_apimachinery::resource::Resource;
use aplomb_builtin_kinds as kinds;
use tokio::sync::watch;

use super::{ApiServer, Inner, Settings};
use crate::admission::Registry;
use crate::crd::DefinitionStrategy;
use crate::definitions;
use crate::mutation::{Mutation, Rule};
use crate::registry;
use crate::storage::{DataDir, Store, Window};

/// Settings of a server that is about to be made.
#[derive(Debug)]
pub struct Builder {
    clock: Option<Clock>,
    window: Window,
    bootstrap: bool,
    cluster: bool,
    settings: Settings,
    resources: Option<Vec<Resource>>,
    data: Option<DataDir>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            clock: None,
            window: Window::default(),
            bootstrap: true,
            cluster: false,
            settings: Settings {
                rbac: false,
                checks_owners: false,
                crd_delay: Duration::from_millis(15),
            },
            resources: None,
            data: None,
        }
    }
}

impl Builder {
    /// Where time and randomness come from; the system unless set.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// How much of the past is kept.
    #[must_use]
    pub fn window(mut self, window: Window) -> Self {
        self.window = window;
        self
    }

    /// Whether requests are authorised by the stored roles and bindings.
    #[must_use]
    pub fn rbac(mut self, on: bool) -> Self {
        self.settings.rbac = on;
        self
    }

    /// Whether only those may change owner references who may delete the object, and block an
    /// owner's deletion who may set its finalizers: the admission plugin
    /// `OwnerReferencesPermissionEnforcement`. Off unless set, as on the real server.
    #[must_use]
    pub fn check_owners(mut self, on: bool) -> Self {
        self.settings.checks_owners = on;
        self
    }

    /// Whether the server starts with the namespaces every cluster has (it does unless told not to).
    #[must_use]
    pub fn bootstrap(mut self, on: bool) -> Self {
        self.bootstrap = on;
        self
    }

    /// Whether the server also starts with the roles, priority classes, flow schemas and API services
    /// a real one makes for itself. Off unless asked for: a test of an operator has no use for them.
    #[must_use]
    pub fn cluster(mut self, on: bool) -> Self {
        self.cluster = on;
        self
    }

    /// How long a new CustomResourceDefinition takes to be served.
    #[must_use]
    pub fn crd_delay(mut self, delay: Duration) -> Self {
        self.settings.crd_delay = delay;
        self
    }

    /// Serves these resources instead of the built-in kinds.
    #[must_use]
    pub fn resources(mut self, resources: Vec<Resource>) -> Self {
        self.resources = Some(resources);
        self
    }

    /// Goes on from a directory and keeps every write there; in memory alone unless set.
    #[must_use]
    pub fn data_dir(mut self, data: DataDir) -> Self {
        self.data = Some(data);
        self
    }

    /// Makes the server.
    #[must_use]
    pub fn build(self) -> ApiServer {
        let clock = self.clock.unwrap_or_else(Clock::system);
        let breakage = Mutation::from_env();
        let noops = breakage.is(Rule::NoopWrite);
        let secrets = self.data.as_ref().map(|data| data.secrets().clone());
        let store = match self.data {
            Some(data) => Store::on_disk(clock.clone(), self.window, noops, data),
            None => Store::new(clock.clone(), self.window, noops),
        };
        let admission = registry(&store);
        let inner = Arc::new(Inner {
            clock,
            store,
            secrets: secrets.unwrap_or_default(),
            breakage,
            settings: self.settings,
            authority: watch::Sender::new(String::new()),
            writing: Mutex::new(()),
            charging: Mutex::new(()),
            resources: RwLock::new(BTreeMap::new()),
            editions: Mutex::new(BTreeMap::new()),
            field_managers: Mutex::new(BTreeMap::new()),
            admission,
            signer: OnceLock::new(),
        });
        let server = ApiServer { inner, as_of: None };
        for resource in self.resources.unwrap_or_else(builtin) {
            server.serve(resource);
        }
        if self.bootstrap {
            registry::bootstrap::bootstrap(&server);
        }
        if self.cluster {
            registry::bootstrap::cluster(&server);
        }
        definitions::resume(&server);
        server
    }
}

/// What admission knows, kept at what the store holds.
fn registry(store: &Store) -> Registry {
    let admission = Registry::default();
    let observer = admission.clone();
    store.replay_and_observe(Arc::new(move |change| observer.observe(change)));
    admission
}

/// The built-in kinds, definitions of custom ones among them.
fn builtin() -> Vec<Resource> {
    let mut resources = kinds::builtin();
    let strategy = Arc::new(DefinitionStrategy::default());
    resources.push(kinds::custom_resource_definitions(strategy));
    resources
}
