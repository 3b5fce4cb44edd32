//! The networks an address must be in. A parser of our own, because all it needs is two masks.

use std::net::IpAddr;
use std::str::FromStr;

/// A network, as `192.0.2.0/24` or `2001:db8::/32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    network: IpAddr,
    bits: u8,
}

/// Not a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no network: write it like 192.0.2.0/24 or 192.0.2.7/32")]
pub struct InvalidCidr(String);

impl Cidr {
    /// Whether `address` is in it. An IPv4 address that is written as IPv6 counts as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.network, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                network.to_bits() & mask == address.to_bits() & mask
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let mask = u128::MAX
                    .checked_shl(128 - u32::from(self.bits))
                    .unwrap_or(0);
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

/// Why `address` may not be used, if it may not. An entry that cannot be read allows nothing.
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
        Some(wrong) => format!("{address} is in no network of spec.allowlist, where {wrong}"),
        None => format!(
            "{address} is in no network of spec.allowlist ({networks}): add it there, or name \
             another floating IP"
        ),
    })
}
