//! Access to the kernel: reads state, adds and removes single items, and subscribes to changes.
//!
//! Decides nothing. Changes need the capability NET_ADMIN; reads do not.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use aplomb::Tasks;
use aplomb::tasks::TaskHandle;
use futures::channel::mpsc::UnboundedReceiver;
use futures::{Stream, StreamExt, TryStreamExt};
use rtnetlink::packet_core::{NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::link::LinkAttribute;
use rtnetlink::packet_route::route::RouteMessage;
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::sys::SocketAddr;
use rtnetlink::{Handle, IpVersion, MulticastGroup};

use crate::Error;
use crate::message::{self, NetItemMessage};
use crate::plan::{KernelItems, NetItem};

mod number {
    pub(crate) const NOT_PERMITTED: i32 = 1;
    pub(crate) const NO_SUCH_PROCESS: i32 = 3;
    pub(crate) const NO_SUCH_FILE: i32 = 2;
    pub(crate) const EXISTS: i32 = 17;
    pub(crate) const NO_SUCH_DEVICE: i32 = 19;
    pub(crate) const NOT_SUPPORTED: i32 = 95;
    pub(crate) const NO_SUCH_FAMILY: i32 = 97;
    pub(crate) const NO_SUCH_ADDRESS: i32 = 99;
}

/// A connection to the kernel of this network namespace.
#[derive(Debug)]
pub(crate) struct NetlinkHandle {
    handle: Handle,
    _connection: TaskHandle<()>,
}

impl NetlinkHandle {
    pub(crate) fn open(tasks: &Tasks) -> Result<Self, Error> {
        let (connection, handle, _) = rtnetlink::new_connection().map_err(Error::Socket)?;
        Ok(Self {
            handle,
            _connection: tasks.spawn_critical("netlink", connection),
        })
    }

    /// The index of an interface; `None` if it does not exist.
    pub(crate) async fn link_index(&self, name: &str) -> Result<Option<u32>, Error> {
        let links = self.handle.link().get().match_name(name.to_owned());
        let link = links.execute().try_next().await;
        match link {
            Ok(link) => Ok(link.map(|link| link.header.index)),
            Err(error) if error_code(&error) == number::NO_SUCH_DEVICE => Ok(None),
            Err(error) => Err(read_error(&error)),
        }
    }

    /// The name of the interface of the default route; of several, the one with the lowest metric.
    pub(crate) async fn default_link_name(&self) -> Result<Option<String>, Error> {
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let routes = self.list_routes(family).await?;
            let best = routes.iter().filter_map(message::default_link).min();
            let Some((_, index)) = best else {
                continue;
            };
            let links = self.handle.link().get().match_index(index).execute();
            let link = links.try_collect::<Vec<_>>().await;
            let link = link.map_err(|error| read_error(&error))?.pop();
            let attributes = link.map(|link| link.attributes).unwrap_or_default();
            let names = attributes.into_iter().find_map(|attribute| match attribute {
                LinkAttribute::IfName(name) => Some(name),
                _ => None,
            });
            return Ok(names);
        }
        Ok(None)
    }

    /// The addresses of an interface, and the rules and routes of `tables`.
    pub(crate) async fn list_items(&self, link: u32, tables: &BTreeSet<u32>) -> Result<KernelItems, Error> {
        let addresses = self.handle.address().get().set_link_index_filter(link);
        let addresses = collect_dump(addresses.execute()).await?;
        let mut found: KernelItems = addresses.iter().filter_map(message::read_address).collect();
        for version in [IpVersion::V4, IpVersion::V6] {
            let rules = collect_dump(self.handle.rule().get(version).execute()).await?;
            found.extend(rules.iter().filter_map(message::read_rule));
        }
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let routes = self.list_routes(family).await?;
            found.extend(routes.iter().filter_map(message::read_route));
        }
        found.retain(|(item, _)| match item {
            NetItem::Address { .. } => true,
            NetItem::Rule { table, .. } | NetItem::Gateway { table, .. } | NetItem::Default { table, .. } => {
                tables.contains(table)
            }
        });
        Ok(found)
    }

    async fn list_routes(&self, family: AddressFamily) -> Result<Vec<RouteMessage>, Error> {
        let mut every = RouteMessage::default();
        every.header.address_family = family;
        collect_dump(self.handle.route().get(every).execute()).await
    }

    /// Adds an item. Fails if a similar one exists.
    pub(crate) async fn add(&self, item: &NetItem) -> Result<(), Error> {
        let handle = &self.handle;
        let done = match message::to_message(item) {
            NetItemMessage::Rule(rule) => {
                let mut request = handle.rule().add();
                *request.message_mut() = rule;
                request.execute().await
            }
            NetItemMessage::Address(address) => {
                let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
                let mut request = handle.address().add(0, nowhere, 0);
                *request.message_mut() = address;
                request.execute().await
            }
            NetItemMessage::Route(route) => handle.route().add(route).execute().await,
        };
        done.map_err(|error| write_error(item, &error))
    }

    /// Removes an item. Succeeds if it is already gone or was removed together with another.
    pub(crate) async fn remove(&self, item: &NetItem) -> Result<(), Error> {
        let handle = &self.handle;
        let done = match message::to_message(item) {
            NetItemMessage::Rule(rule) => handle.rule().del(rule).execute().await,
            NetItemMessage::Address(address) => handle.address().del(address).execute().await,
            NetItemMessage::Route(route) => handle.route().del(route).execute().await,
        };
        match done {
            Err(error) if !is_gone(error_code(&error)) => Err(write_error(item, &error)),
            _ => Ok(()),
        }
    }
}

pub(crate) struct KernelEvents {
    messages: UnboundedReceiver<(NetlinkMessage<RouteNetlinkMessage>, SocketAddr)>,
    _connection: TaskHandle<()>,
}

impl KernelEvents {
    pub(crate) fn open(tasks: &Tasks) -> Result<Self, Error> {
        let groups = [
            MulticastGroup::Link,
            MulticastGroup::Ipv4Ifaddr,
            MulticastGroup::Ipv4Route,
            MulticastGroup::Ipv4Rule,
            MulticastGroup::Ipv6Ifaddr,
            MulticastGroup::Ipv6Route,
            MulticastGroup::Ipv6Rule,
        ];
        let opened = rtnetlink::new_multicast_connection(&groups);
        let (connection, _, messages) = opened.map_err(Error::Socket)?;
        Ok(Self {
            messages,
            _connection: tasks.spawn(connection),
        })
    }

    /// Waits for a relevant change or for lost messages; `false` when no more can come.
    pub(crate) async fn next_change(&mut self, link: u32, tables: &[u32]) -> bool {
        while let Some((message, _)) = self.messages.next().await {
            let concerns = match &message.payload {
                NetlinkPayload::InnerMessage(inner) => message::is_relevant(inner, link, tables),
                NetlinkPayload::Overrun(_) => true,
                _ => false,
            };
            if concerns {
                return true;
            }
        }
        false
    }

    pub(crate) fn discard_pending(&mut self) {
        use futures::FutureExt;
        while let Some(Some(_)) = self.messages.next().now_or_never() {}
    }
}

/// All entries of a dump; empty if the kernel does not support the family.
async fn collect_dump<T>(dump: impl Stream<Item = Result<T, rtnetlink::Error>>) -> Result<Vec<T>, Error> {
    match dump.try_collect().await {
        Err(error) if matches!(error_code(&error), number::NOT_SUPPORTED | number::NO_SUCH_FAMILY) => Ok(Vec::new()),
        other => other.map_err(|error| read_error(&error)),
    }
}

/// The number of an error; 0 if it is not from the kernel.
fn error_code(error: &rtnetlink::Error) -> i32 {
    match error {
        rtnetlink::Error::NetlinkError(message) => message.raw_code().abs(),
        _ => 0,
    }
}

fn is_gone(code: i32) -> bool {
    matches!(
        code,
        number::NO_SUCH_FILE | number::NO_SUCH_PROCESS | number::NO_SUCH_DEVICE | number::NO_SUCH_ADDRESS
    )
}

fn read_error(error: &rtnetlink::Error) -> Error {
    Error::Unread(error.to_string())
}

fn write_error(item: &NetItem, error: &rtnetlink::Error) -> Error {
    let what = item.to_string();
    match error {
        rtnetlink::Error::NetlinkError(message) => match message.raw_code().abs() {
            number::NOT_PERMITTED => Error::NotPermitted(what),
            number::EXISTS => Error::Occupied(what),
            _ => Error::Refused(what, message.to_io()),
        },
        other => Error::Refused(what, std::io::Error::other(other.to_string())),
    }
}
