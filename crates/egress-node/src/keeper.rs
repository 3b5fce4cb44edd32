//! Keeps a node in the desired state until it is stopped, then cleans up.
//!
//! Triggered by netlink notifications and, since those can be lost, by a slow poll. It removes only what it added.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use aplomb::Tasks;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::netlink::{KernelEvents, NetlinkHandle};
use crate::plan::{NetChanges, NetItem, Placement, classify_items, plan_changes};
use crate::{Error, NodeSettings, Slot};

/// Interval of the poll without notifications.
const RESYNC_INTERVAL: Duration = Duration::from_secs(30);
/// Pause after a failure.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// How long notifications are collected before they are handled: they arrive in bursts.
const DEBOUNCE: Duration = Duration::from_millis(100);

/// Whether the node is ready, or why not.
pub(crate) type NodeReadiness = Result<(), String>;

pub(crate) struct AddressKeeper {
    settings: NodeSettings,
    interface: String,
    netlink: NetlinkHandle,
    tasks: Tasks,
    /// Items added by this process, for kernels that do not store our mark.
    added: BTreeSet<NetItem>,
    readiness: watch::Sender<NodeReadiness>,
    /// Index of the interface when it was last present.
    link: u32,
}

impl AddressKeeper {
    pub(crate) async fn new(
        settings: NodeSettings,
        tasks: &Tasks,
        standing: watch::Sender<NodeReadiness>,
    ) -> Result<Self, Error> {
        let kernel = NetlinkHandle::open(tasks)?;
        let interface = match &settings.interface {
            Some(name) => name.clone(),
            None => kernel.default_link_name().await?.ok_or(Error::NoDefaultRoute)?,
        };
        let link = kernel.link_index(&interface).await?;
        let link = link.ok_or_else(|| Error::NoInterface(interface.clone()))?;
        Ok(Self {
            settings,
            interface,
            netlink: kernel,
            tasks: tasks.clone(),
            added: BTreeSet::new(),
            readiness: standing,
            link,
        })
    }

    /// Keeps the node in the desired state until `shutdown`, then removes what was added.
    pub(crate) async fn run(
        mut self,
        mut slots: watch::Receiver<Vec<Slot>>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        tokio::pin!(shutdown);
        let mut news = KernelEvents::open(&self.tasks)?;
        loop {
            let now = slots.borrow_and_update().clone();
            let pause = self.reconcile(&now).await?;
            let tables = self.tables(now.len());
            tokio::select! { biased;
                () = &mut shutdown => break,
                Ok(()) = slots.changed() => {}
                heard = wait_for_change(&mut news, self.link, &tables) => {
                    if !heard {
                        news = KernelEvents::open(&self.tasks)?;
                    }
                }
                () = sleep(pause) => {}
            }
        }
        self.remove_all(slots.borrow().len()).await
    }

    /// Checks once and applies changes. Returns when to check again.
    async fn reconcile(&mut self, slots: &[Slot]) -> Result<Duration, Error> {
        let (standing, pause) = match self.apply_changes(slots).await {
            // Without the capability no change can ever succeed: exit instead of retrying.
            Err(error @ Error::NotPermitted(_)) => return Err(error),
            Err(error) => (Err(error.to_string()), RETRY_INTERVAL),
            Ok(()) => (initial_readiness(slots), RESYNC_INTERVAL),
        };
        if *self.readiness.borrow() != standing {
            match &standing {
                Ok(()) => tracing::info!(interface = self.interface, "Node is prepared"),
                Err(why) => tracing::warn!(interface = self.interface, why, "Node is not prepared"),
            }
        }
        self.set_readiness(standing);
        Ok(pause)
    }

    async fn apply_changes(&mut self, slots: &[Slot]) -> Result<(), Error> {
        let link = self.netlink.link_index(&self.interface).await?;
        self.link = link.ok_or_else(|| Error::NoInterface(self.interface.clone()))?;
        let place = Placement {
            link: self.link,
            gateway: self.settings.gateway,
            priority: self.settings.priority,
        };
        let known = slots.iter().enumerate().filter_map(|(number, slot)| {
            let ip: IpAddr = slot.ip?;
            Some((ip, self.settings.table_for(number)))
        });
        let known: Vec<_> = known.collect();
        // What an unknown address needs is unknown too: its present items stay.
        let tables = known.iter().map(|(_, table)| *table).collect();
        let wanted: BTreeSet<NetItem> = known
            .iter()
            .flat_map(|(ip, table)| place.items_for(*ip, *table))
            .collect();
        let present = self.present_items(&tables).await?;
        let plan = plan_changes(&wanted, &present);
        let lost = plan.add.first();
        if let Some(first) = lost.filter(|_| self.readiness.borrow().is_ok()) {
            let why = format!("{first} is missing");
            tracing::warn!(interface = self.interface, why, "Node is not prepared");
            self.set_readiness(Err(why));
        }
        self.execute(&plan).await
    }

    async fn present_items(&self, tables: &BTreeSet<u32>) -> Result<BTreeMap<NetItem, bool>, Error> {
        let found = self.netlink.list_items(self.link, tables).await?;
        Ok(classify_items(&found, &self.added))
    }

    async fn execute(&mut self, plan: &NetChanges) -> Result<(), Error> {
        for item in &plan.remove {
            self.netlink.remove(item).await?;
            self.added.remove(item);
            tracing::info!(interface = self.interface, "Removed {item}");
        }
        for item in &plan.add {
            self.netlink.add(item).await?;
            self.added.insert(*item);
            tracing::info!(interface = self.interface, "Added {item}");
        }
        Ok(())
    }

    async fn remove_all(&mut self, slots: usize) -> Result<(), Error> {
        self.set_readiness(Err("stopping".to_owned()));
        let tables = self.tables(slots).into_iter().collect();
        let present = self.present_items(&tables).await?;
        let plan = plan_changes(&BTreeSet::new(), &present);
        self.execute(&plan).await
    }

    fn set_readiness(&self, standing: NodeReadiness) {
        drop(self.readiness.send_replace(standing));
    }

    fn tables(&self, slots: usize) -> Vec<u32> {
        let numbers = 0..slots;
        numbers.map(|number| self.settings.table_for(number)).collect()
    }
}

fn initial_readiness(slots: &[Slot]) -> NodeReadiness {
    let unknown = slots.iter().find(|slot| slot.ip.is_none());
    let name = unknown.and_then(|slot| slot.name.as_deref());
    match name {
        Some(name) => Err(format!("StableEgress {name} has no address in its status yet")),
        None => Ok(()),
    }
}

/// Waits for a burst of relevant notifications; `false` when no more can come.
async fn wait_for_change(news: &mut KernelEvents, link: u32, tables: &[u32]) -> bool {
    let more = news.next_change(link, tables).await;
    sleep(DEBOUNCE).await;
    news.discard_pending();
    more
}
