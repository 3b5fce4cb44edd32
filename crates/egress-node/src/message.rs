//! Converts items to and from netlink messages.
//!
//! Everything that is added has our protocol number, so that a restarted process recognizes it. Kernels before 5.18 do
//! not store it for addresses; there an address that was left behind by a crash counts as foreign.

use std::net::IpAddr;

use rtnetlink::packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage, AddressProtocol};
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use rtnetlink::packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::plan::NetItem;

/// Our route protocol number; no routing daemon uses it.
const PROTOCOL: u8 = 0xA9;
/// Header value for a table number that does not fit there.
const COMPAT_TABLE: u8 = 252;

fn address_family(ip: IpAddr) -> AddressFamily {
    match ip {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

fn prefix_length(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

#[derive(Clone, Debug)]
pub(crate) enum NetItemMessage {
    Rule(RuleMessage),
    Address(AddressMessage),
    Route(RouteMessage),
}

pub(crate) fn to_message(item: &NetItem) -> NetItemMessage {
    match *item {
        NetItem::Rule { from, table, priority } => NetItemMessage::Rule(rule_message(from, table, priority)),
        NetItem::Address { ip, link } => NetItemMessage::Address(address_message(ip, link)),
        NetItem::Gateway {
            gateway: to,
            link,
            table,
        } => NetItemMessage::Route(gateway_route(to, link, table)),
        NetItem::Default {
            gateway,
            link,
            table,
            source,
        } => NetItemMessage::Route(default_route(gateway, link, table, source)),
    }
}

fn address_message(ip: IpAddr, link: u32) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = address_family(ip);
    message.header.prefix_len = prefix_length(ip);
    message.header.index = link;
    if ip.is_ipv6() {
        // The provider routes the address to one node at a time, but several nodes have it; duplicate address detection
        // would see a conflict.
        message.header.flags = AddressHeaderFlags::Nodad;
    }
    message.attributes = vec![
        AddressAttribute::Address(ip),
        AddressAttribute::Local(ip),
        AddressAttribute::Protocol(AddressProtocol::Other(PROTOCOL)),
    ];
    message
}

/// Fields shared by all routes through `link` in `table`.
fn base_route(of: AddressFamily, link: u32, table: u32) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = of;
    message.header.table = u8::try_from(table).unwrap_or(COMPAT_TABLE);
    message.header.protocol = RouteProtocol::Other(PROTOCOL);
    message.header.kind = RouteType::Unicast;
    message.attributes = vec![RouteAttribute::Table(table), RouteAttribute::Oif(link)];
    message
}

fn gateway_route(gateway: IpAddr, link: u32, table: u32) -> RouteMessage {
    let mut message = base_route(address_family(gateway), link, table);
    message.header.scope = RouteScope::Link;
    message.header.destination_prefix_length = prefix_length(gateway);
    let to = RouteAttribute::Destination(gateway.into());
    message.attributes.push(to);
    message
}

fn default_route(gateway: IpAddr, link: u32, table: u32, source: IpAddr) -> RouteMessage {
    let mut message = base_route(address_family(gateway), link, table);
    message.header.scope = RouteScope::Universe;
    message.attributes.extend([
        RouteAttribute::Gateway(gateway.into()),
        RouteAttribute::PrefSource(source.into()),
    ]);
    message
}

fn rule_message(from: IpAddr, table: u32, priority: u32) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = address_family(from);
    message.header.src_len = prefix_length(from);
    message.header.table = u8::try_from(table).unwrap_or(COMPAT_TABLE);
    message.header.action = RuleAction::ToTable;
    message.attributes = vec![
        RuleAttribute::Source(from),
        RuleAttribute::Table(table),
        RuleAttribute::Priority(priority),
        RuleAttribute::Protocol(RouteProtocol::Other(PROTOCOL)),
    ];
    message
}

/// The address in a message with any prefix, and whether it has our mark.
pub(crate) fn read_address(message: &AddressMessage) -> Option<(NetItem, bool)> {
    let (mut local, mut address, mut marked) = (None, None, false);
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(ip) => local = Some(*ip),
            AddressAttribute::Address(ip) => address = Some(*ip),
            AddressAttribute::Protocol(by) => marked = *by == AddressProtocol::Other(PROTOCOL),
            _ => {}
        }
    }
    let link = message.header.index;
    let ip = local.or(address)?;
    Some((NetItem::Address { ip, link }, marked))
}

/// The route in a message, if it is of a kind that we add, and whether it has our mark.
pub(crate) fn read_route(message: &RouteMessage) -> Option<(NetItem, bool)> {
    let (mut to, mut via, mut source, mut link) = (None, None, None, None);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(ip) => to = Some(to_ip_addr(ip)?),
            RouteAttribute::Gateway(ip) => via = Some(to_ip_addr(ip)?),
            RouteAttribute::PrefSource(ip) => source = Some(to_ip_addr(ip)?),
            RouteAttribute::Oif(index) => link = Some(*index),
            _ => {}
        }
    }
    let (table, link) = (route_table(message), link?);
    let marked = message.header.protocol == RouteProtocol::Other(PROTOCOL);
    let item = match (to, via, message.header.destination_prefix_length) {
        (None, Some(gateway), 0) => NetItem::Default {
            gateway,
            link,
            table,
            source: source?,
        },
        (Some(gateway), None, bits) if bits == prefix_length(gateway) => NetItem::Gateway { gateway, link, table },
        _ => return None,
    };
    (message.header.kind == RouteType::Unicast).then_some((item, marked))
}

/// The rule in a message, if it matches only a source, and whether it has our mark.
pub(crate) fn read_rule(message: &RuleMessage) -> Option<(NetItem, bool)> {
    let (mut from, mut table, mut priority) = (None, u32::from(message.header.table), 0);
    let mut marked = false;
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Source(ip) => from = Some(*ip),
            RuleAttribute::Table(number) => table = *number,
            RuleAttribute::Priority(number) => priority = *number,
            RuleAttribute::Protocol(by) => marked = *by == RouteProtocol::Other(PROTOCOL),
            RuleAttribute::Destination(_)
            | RuleAttribute::Iifname(_)
            | RuleAttribute::Oifname(_)
            | RuleAttribute::FwMark(_)
            | RuleAttribute::UidRange(_)
            | RuleAttribute::SourcePortRange(_)
            | RuleAttribute::DestinationPortRange(_) => return None,
            _ => {}
        }
    }
    let from = from.filter(|from| message.header.src_len == prefix_length(*from))?;
    let item = NetItem::Rule { from, table, priority };
    (message.header.action == RuleAction::ToTable).then_some((item, marked))
}

/// The interface and the metric of a default route of the main table.
pub(crate) fn default_link(message: &RouteMessage) -> Option<(u32, u32)> {
    let main = route_table(message) == u32::from(RouteHeader::RT_TABLE_MAIN);
    let all = message.header.destination_prefix_length == 0;
    let (mut metric, mut link) = (0, None);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Priority(number) => metric = *number,
            RouteAttribute::Oif(index) => link = Some(*index),
            _ => {}
        }
    }
    link.filter(|_| main && all && message.header.kind == RouteType::Unicast)
        .map(|link| (metric, link))
}

fn route_table(message: &RouteMessage) -> u32 {
    let named = message.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Table(number) => Some(*number),
        _ => None,
    });
    named.unwrap_or_else(|| u32::from(message.header.table))
}

fn to_ip_addr(ip: &RouteAddress) -> Option<IpAddr> {
    match ip {
        RouteAddress::Inet(ip) => Some((*ip).into()),
        RouteAddress::Inet6(ip) => Some((*ip).into()),
        _ => None,
    }
}

/// Whether a notification is relevant: our interface, our tables, or a rule.
pub(crate) fn is_relevant(message: &RouteNetlinkMessage, link: u32, tables: &[u32]) -> bool {
    match message {
        RouteNetlinkMessage::NewAddress(it) | RouteNetlinkMessage::DelAddress(it) => it.header.index == link,
        RouteNetlinkMessage::NewLink(it) | RouteNetlinkMessage::DelLink(it) => it.header.index == link,
        RouteNetlinkMessage::NewRoute(it) | RouteNetlinkMessage::DelRoute(it) => tables.contains(&route_table(it)),
        RouteNetlinkMessage::NewRule(_) | RouteNetlinkMessage::DelRule(_) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Placement;

    fn read(item: &NetItem) -> Option<(NetItem, bool)> {
        match to_message(item) {
            NetItemMessage::Rule(message) => read_rule(&message),
            NetItemMessage::Address(message) => read_address(&message),
            NetItemMessage::Route(message) => read_route(&message),
        }
    }

    #[test]
    fn what_is_written_is_read_back_with_our_mark() {
        let place = Placement {
            link: 2,
            gateway: None,
            priority: 2010,
        };
        for ip in ["203.0.113.7", "2001:db8::7"] {
            for table in [10, 2010] {
                for item in place.items_for(ip.parse().unwrap(), table) {
                    assert_eq!(read(&item), Some((item, true)), "{item}");
                }
            }
        }
    }

    #[test]
    fn a_rule_with_more_selectors_is_another() {
        let mut message = rule_message("203.0.113.7".parse().unwrap(), 2010, 2010);
        message.attributes.push(RuleAttribute::FwMark(1));
        assert_eq!(read_rule(&message), None);
    }

    #[test]
    fn a_route_of_others_has_no_mark() {
        let ip: IpAddr = "203.0.113.7".parse().unwrap();
        let mut message = gateway_route("172.31.1.1".parse().unwrap(), 2, 2010);
        message.header.protocol = RouteProtocol::Static;
        assert!(read_route(&message).is_some_and(|(_, marked)| !marked));
        let mut message = address_message(ip, 2);
        message.attributes.pop();
        assert!(read_address(&message).is_some_and(|(_, marked)| !marked));
    }
}
