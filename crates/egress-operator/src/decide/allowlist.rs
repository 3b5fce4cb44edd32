//! Checks an address against a list of networks. A small parser of our own suffices for two masks.

use std::net::IpAddr;
use std::str::FromStr;

/// A network, as `192.0.2.0/24` or `2001:db8::/32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    network: IpAddr,
    bits: u8,
}

/// Text that cannot be parsed as a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a network: write it like 192.0.2.0/24 or 192.0.2.7/32")]
pub struct InvalidCidr(String);

impl Cidr {
    /// Whether the network contains `address`. An IPv4-mapped IPv6 address counts as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.network, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                network.to_bits() & mask == address.to_bits() & mask
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                network.to_bits() & mask == address.to_bits() & mask
            }
            _ => false,
        }
    }
}

impl FromStr for Cidr {
    type Err = InvalidCidr;

    fn from_str(text: &str) -> Result<Self, InvalidCidr> {
        let wrong = || InvalidCidr(text.to_owned());
        let (network, bits) = text.split_once('/').ok_or_else(wrong)?;
        let network: IpAddr = network.parse().map_err(|_| wrong())?;
        let digits = (1..=3).contains(&bits.len()) && bits.bytes().all(|b| b.is_ascii_digit());
        let bits: u8 = bits.parse().ok().filter(|_| digits).ok_or_else(wrong)?;
        let most = if network.is_ipv4() { 32 } else { 128 };
        if bits > most {
            return Err(wrong());
        }
        Ok(Self { network, bits })
    }
}

/// Why `address` is not allowed, if it is not. An entry that cannot be parsed allows nothing.
pub(super) fn allowlist_refusal(allowlist: &[String], address: IpAddr) -> Option<String> {
    if allowlist.is_empty() {
        return None;
    }
    let mut unreadable = None;
    for entry in allowlist {
        match entry.parse::<Cidr>() {
            Ok(network) if network.contains(address) => return None,
            Ok(_) => {}
            Err(wrong) => unreadable = unreadable.or(Some(wrong)),
        }
    }
    let networks = allowlist.join(", ");
    Some(match unreadable {
        Some(wrong) => format!("{address} is not in any network of spec.allowlist, where {wrong}"),
        None => format!("{address} is not in spec.allowlist ({networks}): add it, or choose another floating IP"),
    })
}
