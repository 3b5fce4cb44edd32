//! Which addresses a tenant's backend may have. A gateway runs inside a network that its tenants must not
//! reach, so only public addresses and those that the platform permits are allowed. Addresses are checked
//! after name resolution, and the checked address is the one dialed, so that a DNS server cannot change it in
//! between. Nothing here resolves or dials.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use ipnet::IpNet;

/// Metadata services of clouds, which hand out credentials. They can never be permitted.
const METADATA_ADDRESSES: [&str; 11] = [
    "169.254.169.254/32",
    "169.254.170.2/32",
    "169.254.170.23/32",
    "169.254.42.42/32",
    "100.100.100.200/32",
    "168.63.129.16/32",
    "192.0.0.192/32",
    "fd00:ec2::/32",
    "fd20:ce::254/128",
    "fd00:42::42/128",
    "fe80::a9fe:a9fe/128",
];

/// Networks that are not public. IPv6 outside 2000::/3 is not public either.
const NON_PUBLIC_NETWORKS: [(&str, &str); 20] = [
    ("0.0.0.0/8", "unspecified"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "shared"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "reserved"),
    ("192.88.99.0/24", "reserved"),
    ("192.168.0.0/16", "private"),
    ("198.18.0.0/15", "benchmarking"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("2001::/23", "reserved"),
    ("3fff::/20", "reserved"),
    ("fc00::/7", "private"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "site-local"),
    ("ff00::/8", "multicast"),
];

/// Ports of a kubelet, which allows running commands in Pods and reading their specs.
const KUBELET_PORTS: [u16; 2] = [10250, 10255];

/// Why an address is not dialed. The message contains no address, because tenants can read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressRefusal {
    /// Its network is neither public nor permitted; the kind of network.
    Network(&'static str),
    /// It may be a kubelet.
    Kubelet,
    /// It is a cloud metadata service.
    Metadata,
    /// It is a listener of this gateway.
    OwnListener,
    /// `--deny-network` covers it.
    Denied,
}

impl fmt::Display for AddressRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(kind) => write!(
                f,
                "a {kind} address: ask an administrator to add its network to spec.backendNetworks of the \
                 ConnectorClass"
            ),
            Self::Kubelet => f.write_str(
                "a kubelet port: requires its exact address (/32 or /128) in spec.backendNetworks \
                 of the ConnectorClass",
            ),
            Self::Metadata => f.write_str("a cloud metadata service, which is never dialed"),
            Self::OwnListener => f.write_str("a listener of the gateway itself, which is never dialed"),
            Self::Denied => f.write_str("a network that --deny-network forbids"),
        }
    }
}

#[derive(Clone, Debug)]
pub struct AddressPolicy {
    allowed: Vec<IpNet>,
    denied: Vec<IpNet>,
    own_ports: Vec<u16>,
    metadata: Vec<IpNet>,
    non_public: Vec<(IpNet, &'static str)>,
}

impl AddressPolicy {
    /// `denied` takes precedence over classes; `allowed` is open to every backend and takes precedence over
    /// `denied`. `own` are the ports of this gateway's listeners.
    #[must_use]
    pub fn new(allowed: Vec<IpNet>, denied: &[IpNet], own: &[u16]) -> Self {
        let network = |network: &str| -> IpNet {
            let network = network.parse();
            network.expect("the networks of the lists are valid")
        };
        Self {
            allowed,
            denied: denied.to_vec(),
            own_ports: own.to_vec(),
            metadata: METADATA_ADDRESSES.map(network).to_vec(),
            non_public: NON_PUBLIC_NETWORKS.map(|(it, kind)| (network(it), kind)).to_vec(),
        }
    }

    /// Checks whether an address may be dialed for a backend whose class permits these networks. An IPv6
    /// address that embeds an IPv4 address is checked as that one.
    ///
    /// # Errors
    /// The reason why not.
    pub fn check(&self, address: SocketAddr, opened: &[IpNet]) -> Result<(), AddressRefusal> {
        let outer = address.ip();
        let ip = effective_address(outer);
        let within = |networks: &[IpNet]| networks.iter().any(|it| it.contains(&ip));
        if within(&self.metadata) {
            return Err(AddressRefusal::Metadata);
        }
        if self.own_ports.contains(&address.port()) && is_local(address) {
            return Err(AddressRefusal::OwnListener);
        }
        let allowed = within(&self.allowed);
        if !allowed && (within(&self.denied) || self.denied.iter().any(|it| it.contains(&outer))) {
            return Err(AddressRefusal::Denied);
        }
        let host = |it: &IpNet| it.prefix_len() == it.max_prefix_len() && it.addr() == ip;
        let by_itself = self.allowed.iter().chain(opened).any(host);
        if KUBELET_PORTS.contains(&address.port()) && !by_itself {
            return Err(AddressRefusal::Kubelet);
        }
        if allowed || within(opened) {
            return Ok(());
        }
        match self.non_public.iter().find(|(it, _)| it.contains(&ip)) {
            Some((_, kind)) => Err(AddressRefusal::Network(kind)),
            None if is_global(ip) => Ok(()),
            None => Err(AddressRefusal::Network("reserved")),
        }
    }
}

impl Default for AddressPolicy {
    fn default() -> Self {
        Self::new(Vec::new(), &[], &[])
    }
}

/// Whether an address belongs to this machine: only those can be bound.
fn is_local(mut address: SocketAddr) -> bool {
    address.set_port(0);
    let plain = SocketAddr::new(effective_address(address.ip()), 0);
    UdpSocket::bind(address).is_ok() || UdpSocket::bind(plain).is_ok()
}

/// Only 2000::/3 is assigned for the IPv6 Internet.
fn is_global(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(_) => true,
        IpAddr::V6(ip) => ip.segments()[0] & 0xe000 == 0x2000,
    }
}

/// The effective destination: the embedded address of mapped, compatible, NAT64 and 6to4 addresses.
fn effective_address(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => ip,
        IpAddr::V6(outer) => embedded_ipv4(outer).map_or(ip, IpAddr::V4),
    }
}

fn embedded_ipv4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let bits = address.to_bits();
    let low = Ipv4Addr::from_bits(u32::try_from(bits & 0xffff_ffff).ok()?);
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => Some(low),
        // Except :: and ::1, which do not embed an address.
        [0, 0, 0, 0, 0, 0, ..] if bits > 1 => Some(low),
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => Some(low),
        [0x2002, high, next, ..] => {
            let [a, b] = high.to_be_bytes();
            let [c, d] = next.to_be_bytes();
            Some(Ipv4Addr::new(a, b, c, d))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
