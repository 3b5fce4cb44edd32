//! Which items a node needs so that traffic can leave through floating IPs, and which are missing.
//!
//! Pure: takes the present items and returns the changes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The gateways of Hetzner's servers. They respond on the link although they are in none of its networks.
const GATEWAY_V4: Ipv4Addr = Ipv4Addr::new(172, 31, 1, 1);
const GATEWAY_V6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

/// One item in the kernel. Variants are declared in the order in which they are added: the rule first, because it
/// identifies the owner of the rest if this process dies in between, and has no effect while its table is empty. They
/// are removed in reverse order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NetItem {
    /// Traffic from an address is routed by its own table.
    Rule { from: IpAddr, table: u32, priority: u32 },
    /// An address on the interface.
    Address { ip: IpAddr, link: u32 },
    /// The gateway is on the link.
    Gateway { gateway: IpAddr, link: u32, table: u32 },
    /// All other traffic goes through the gateway.
    Default {
        gateway: IpAddr,
        link: u32,
        table: u32,
        source: IpAddr,
    },
}

impl fmt::Display for NetItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule { from, table, .. } => write!(f, "rule from {from} to table {table}"),
            Self::Address { ip, .. } => write!(f, "address {ip}"),
            Self::Gateway { gateway, table, .. } => {
                write!(f, "route to {gateway} in table {table}")
            }
            Self::Default { table, .. } => write!(f, "default route of table {table}"),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Placement {
    pub(crate) link: u32,
    pub(crate) gateway: Option<IpAddr>,
    pub(crate) priority: u32,
}

impl Placement {
    /// The items for address `ip`, with `table` as its own table.
    pub(crate) fn items_for(self, ip: IpAddr, table: u32) -> [NetItem; 4] {
        let (link, priority) = (self.link, self.priority);
        let given = self.gateway.filter(|it| it.is_ipv4() == ip.is_ipv4());
        let gateway = given.unwrap_or(match ip {
            IpAddr::V4(_) => GATEWAY_V4.into(),
            IpAddr::V6(_) => GATEWAY_V6.into(),
        });
        [
            NetItem::Rule {
                from: ip,
                table,
                priority,
            },
            NetItem::Address { ip, link },
            NetItem::Gateway { gateway, link, table },
            NetItem::Default {
                gateway,
                link,
                table,
                source: ip,
            },
        ]
    }
}

/// The items in the kernel, and whether each has our mark.
pub(crate) type KernelItems = Vec<(NetItem, bool)>;

/// The present items, and whether each is ours to remove.
///
/// An address with our mark may belong to another process of this program with other tables: it is ours if this process
/// added it, or if a rule of ours leads from it to one of our tables.
pub(crate) fn classify_items(found: &KernelItems, added: &BTreeSet<NetItem>) -> BTreeMap<NetItem, bool> {
    let rules = found.iter().filter(|(_, marked)| *marked);
    let sources: BTreeSet<IpAddr> = rules
        .filter_map(|(item, _)| match item {
            NetItem::Rule { from, .. } => Some(*from),
            _ => None,
        })
        .collect();
    let ours = |item: &NetItem, marked: bool| match item {
        NetItem::Address { ip, .. } => added.contains(item) || (marked && sources.contains(ip)),
        _ => marked,
    };
    let found = found.iter();
    found.map(|(item, marked)| (*item, ours(item, *marked))).collect()
}

/// Changes in the order in which to apply them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NetChanges {
    pub(crate) remove: Vec<NetItem>,
    pub(crate) add: Vec<NetItem>,
}

/// The changes from `present` to `wanted`. Foreign items are never removed.
pub(crate) fn plan_changes(wanted: &BTreeSet<NetItem>, present: &BTreeMap<NetItem, bool>) -> NetChanges {
    let stale = present.iter().rev();
    let stale = stale.filter(|(item, ours)| **ours && !wanted.contains(*item));
    let missing = wanted.iter().filter(|item| !present.contains_key(*item));
    NetChanges {
        remove: stale.map(|(item, _)| *item).collect(),
        add: missing.copied().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Placement = Placement {
        link: 2,
        gateway: None,
        priority: 2010,
    };

    fn ip(last: u8) -> IpAddr {
        Ipv4Addr::new(203, 0, 113, last).into()
    }

    fn wanted(last: u8) -> BTreeSet<NetItem> {
        PLACE.items_for(ip(last), 2010).into()
    }

    fn present(items: &BTreeSet<NetItem>, marked: bool) -> BTreeMap<NetItem, bool> {
        let found = items.iter().map(|item| (*item, marked)).collect();
        classify_items(&found, &BTreeSet::new())
    }

    #[test]
    fn on_a_bare_node_everything_is_added_and_the_default_route_last() {
        let plan = plan_changes(&wanted(7), &BTreeMap::new());
        assert!(plan.remove.is_empty());
        assert_eq!(plan.add.len(), 4);
        assert!(matches!(plan.add[0], NetItem::Rule { .. }));
        assert!(matches!(plan.add[3], NetItem::Default { source, .. } if source == ip(7)));
    }

    #[test]
    fn what_is_there_is_not_added_again() {
        let plan = plan_changes(&wanted(7), &present(&wanted(7), true));
        assert_eq!(plan, NetChanges::default());
    }

    #[test]
    fn only_what_was_lost_is_added() {
        let mut found = present(&wanted(7), true);
        let address = NetItem::Address { ip: ip(7), link: 2 };
        found.remove(&address);
        assert_eq!(plan_changes(&wanted(7), &found).add, [address]);
    }

    #[test]
    fn an_address_that_changed_takes_all_of_the_old_one_with_it() {
        let plan = plan_changes(&wanted(8), &present(&wanted(7), true));
        assert_eq!(plan.remove.len(), 3, "{plan:?}");
        assert!(matches!(plan.remove[0], NetItem::Default { .. }));
        assert!(matches!(plan.remove[2], NetItem::Rule { .. }), "the mark last");
        let gateway = |item: &NetItem| matches!(item, NetItem::Gateway { .. });
        assert!(!plan.remove.iter().any(gateway), "needed by both");
    }

    #[test]
    fn what_others_made_is_used_and_left() {
        let theirs = present(&wanted(7), false);
        assert_eq!(plan_changes(&wanted(7), &theirs), NetChanges::default());
        assert_eq!(plan_changes(&BTreeSet::new(), &theirs), NetChanges::default());
    }

    #[test]
    fn what_an_earlier_life_left_is_ours() {
        let plan = plan_changes(&BTreeSet::new(), &present(&wanted(7), true));
        assert_eq!(plan.remove.len(), 4);
    }

    #[test]
    fn the_address_of_another_process_like_this_is_not_ours() {
        let theirs = NetItem::Address { ip: ip(9), link: 2 };
        let found = vec![(theirs, true)];
        assert!(!classify_items(&found, &BTreeSet::new())[&theirs], "no rule of ours");
        assert!(classify_items(&found, &[theirs].into())[&theirs], "we added it");
    }

    #[test]
    fn the_gateway_is_of_the_address_family_of_the_address() {
        let place = Placement {
            gateway: Some(Ipv4Addr::new(192, 0, 2, 1).into()),
            ..PLACE
        };
        let six: IpAddr = "2001:db8::1".parse().unwrap();
        let gateway_of = |items: [NetItem; 4]| match items[2] {
            NetItem::Gateway { gateway, .. } => gateway.to_string(),
            other => panic!("{other}"),
        };
        assert_eq!(gateway_of(place.items_for(ip(7), 2010)), "192.0.2.1");
        assert_eq!(gateway_of(place.items_for(six, 2010)), "fe80::1");
        assert_eq!(gateway_of(PLACE.items_for(ip(7), 2010)), "172.31.1.1");
    }
}
