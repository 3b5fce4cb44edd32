//! Which addresses a tenant's backend may have. A gateway stands inside a network that its tenants do not:
//! an address is judged after its name was resolved, and the address that was judged is the one dialled,
//! so that no answer of a DNS server changes in between. Nothing here resolves or dials.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// What nobody reaches from here unless it is allowed: the machine itself, the link, and the addresses
/// where clouds tell machines their secrets.
const NEVER: [(&str, &str); 17] = [
    ("0.0.0.0/8", "unspecified"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local or metadata"),
    ("100.100.100.200/32", "metadata"),
    ("168.63.129.16/32", "metadata"),
    ("192.0.0.192/32", "metadata"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "site-local"),
    ("ff00::/8", "multicast"),
    ("fd00:ec2::254/128", "metadata"),
    ("fd20:ce::254/128", "metadata"),
    ("fd00:42::42/128", "metadata"),
    ("100::/64", "reserved"),
];

/// Judges addresses.
#[derive(Clone, Debug)]
pub struct Guard {
    allowed: Vec<IpNet>,
    denied: Vec<(IpNet, &'static str)>,
}

impl Guard {
    /// `denied` are the gateway's own networks; what is in `allowed` may be reached whatever else is said.
    #[must_use]
    pub fn new(allowed: Vec<IpNet>, denied: &[IpNet]) -> Self {
        let never = NEVER.iter().map(|(network, why)| {
            let network = network.parse().expect("the networks of the list are valid");
            (network, *why)
        });
        let own = denied.iter().map(|network| (*network, "denied"));
        Self {
            allowed,
            denied: never.chain(own).collect(),
        }
    }

    /// Whether an address may be dialled. An IPv6 address that stands for an IPv4 one is judged as both.
    ///
    /// # Errors
    /// Says what it is that may not be reached.
    pub fn judge(&self, address: IpAddr) -> Result<(), &'static str> {
        if self.allows(address) {
            return Ok(());
        }
        let inner = match address {
            IpAddr::V4(_) => None,
            IpAddr::V6(address) => embedded(address).map(IpAddr::V4),
        };
        if inner.is_some_and(|inner| self.allows(inner)) {
            return Ok(());
        }
        for address in [Some(address), inner].into_iter().flatten() {
            let hit = self.denied.iter().find(|(net, _)| net.contains(&address));
            if let Some((_, why)) = hit {
                return Err(why);
            }
        }
        Ok(())
    }

    fn allows(&self, address: IpAddr) -> bool {
        self.allowed
            .iter()
            .any(|network| network.contains(&address))
    }
}

impl Default for Guard {
    fn default() -> Self {
        Self::new(Vec::new(), &[])
    }
}

/// The IPv4 address that a packet to an IPv6 address may end up at: mapped, compatible, NAT64 and 6to4.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let bits = address.to_bits();
    let words = address.segments();
    let low = Ipv4Addr::from_bits(u32::try_from(bits & 0xffff_ffff).ok()?);
    match words {
        [0, 0, 0, 0, 0, 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => Some(low),
        // Not :: and ::1, which are addresses of their own.
        [0, 0, 0, 0, 0, 0, ..] if bits > 1 => Some(low),
        [0x64, 0xff9b, ..] => Some(low),
        [0x2002, high, next, ..] => {
            let [a, b] = high.to_be_bytes();
            let [c, d] = next.to_be_bytes();
            Some(Ipv4Addr::new(a, b, c, d))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn judge(guard: &Guard, address: &str) -> bool {
        guard.judge(address.parse().expect("an address")).is_ok()
    }

    #[test]
    fn no_tenant_reaches_the_machine_the_link_or_the_metadata() {
        let guard = Guard::default();
        let refused = [
            "127.0.0.1",
            "127.8.9.1",
            "0.0.0.0",
            "169.254.169.254",
            "169.254.1.1",
            "100.100.100.200",
            "168.63.129.16",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "ff02::1",
            "fd00:ec2::254",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::127.0.0.1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
        ];
        for address in refused {
            assert!(!judge(&guard, address), "{address}");
        }
        let fine = [
            "192.0.2.1",
            "10.0.0.1",
            "2001:db8::1",
            "::ffff:192.0.2.1",
            "64:ff9b::192.0.2.1",
            "fd00::1",
        ];
        for address in fine {
            assert!(judge(&guard, address), "{address}");
        }
    }

    #[test]
    fn the_gateways_own_networks_are_denied_and_what_is_allowed_is_allowed() {
        let network = |text: &str| text.parse::<IpNet>().expect("a network");
        let allowed = vec![network("127.0.0.1/32"), network("10.1.2.0/24")];
        let guard = Guard::new(
            allowed,
            &[network("10.0.0.0/8"), network("2001:db8:1::/48")],
        );
        for (address, fine) in [
            ("10.9.9.9", false),
            ("10.1.2.3", true),
            ("127.0.0.1", true),
            ("::ffff:127.0.0.1", true),
            ("127.0.0.2", false),
            ("::ffff:10.9.9.9", false),
            ("2001:db8:1::5", false),
            ("2001:db8:2::5", true),
        ] {
            assert_eq!(judge(&guard, address), fine, "{address}");
        }
    }

    proptest! {
        #[test]
        fn an_address_is_no_better_for_being_written_as_ipv6(bits: u32) {
            let guard = Guard::default();
            let plain = Ipv4Addr::from_bits(bits);
            let mapped = IpAddr::V6(plain.to_ipv6_mapped());
            // ::1 and its neighbours are addresses of their own.
            let same = guard.judge(IpAddr::V4(plain)).is_ok() == guard.judge(mapped).is_ok();
            prop_assert!(same, "{plain}");
        }
    }
}
