//! Which addresses a tenant's backend may have. A gateway stands inside a network that its tenants are
//! not in, so only public addresses are open, and those that the platform opens. An address is judged
//! after its name was resolved, and the address that was judged is the one dialed, so that a DNS server
//! cannot change its answer in between. Nothing here resolves or dials.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use ipnet::IpNet;

/// Where clouds give secrets to machines. Nothing opens these.
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

/// What is not public. Addresses of IPv6 outside 2000::/3 are not public either.
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

/// The ports of a kubelet: who reaches one may run commands in Pods or read what they are.
const KUBELET_PORTS: [u16; 2] = [10250, 10255];

/// Why an address is not dialed. The text names no address: the one who reads it may be a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressRefusal {
    /// Its network is not public, and not opened: what kind it is of.
    Network(&'static str),
    /// A kubelet may listen there.
    Kubelet,
    /// It is a cloud's metadata service.
    Metadata,
    /// It is a listener of this gateway.
    OwnListener,
    /// A flag of the gateway closes its network.
    Denied,
}

impl fmt::Display for AddressRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(kind) => write!(
                f,
                "a {kind} address: ask the platform engineer for its network in spec.backendNetworks of the \
                 ConnectorClass"
            ),
            Self::Kubelet => f.write_str(
                "the port of a kubelet: it needs its address by itself (/32 or /128) in spec.backendNetworks \
                 of the ConnectorClass",
            ),
            Self::Metadata => f.write_str("cloud metadata, which is never dialed"),
            Self::OwnListener => f.write_str("a listener of the gateway itself, which is never dialed"),
            Self::Denied => f.write_str("a network that --deny-network closes"),
        }
    }
}

/// Judges addresses.
#[derive(Clone, Debug)]
pub struct AddressPolicy {
    allowed: Vec<IpNet>,
    denied: Vec<IpNet>,
    own_ports: Vec<u16>,
    metadata: Vec<IpNet>,
    non_public: Vec<(IpNet, &'static str)>,
}

impl AddressPolicy {
    /// `denied` stays closed whatever a class opens; `allowed` is open to every backend, also where it
    /// is denied. `own` are the ports that this gateway listens on.
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

    /// Whether an address may be dialed for a backend whose class opens these networks. An address of
    /// IPv6 that stands for one of IPv4 is judged as that one.
    ///
    /// # Errors
    /// Says why not.
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

/// Whether an address is one of this machine: only those can be bound.
fn is_local(mut address: SocketAddr) -> bool {
    address.set_port(0);
    let plain = SocketAddr::new(effective_address(address.ip()), 0);
    UdpSocket::bind(address).is_ok() || UdpSocket::bind(plain).is_ok()
}

/// Of IPv6 only 2000::/3 is assigned for use on the Internet.
fn is_global(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(_) => true,
        IpAddr::V6(ip) => ip.segments()[0] & 0xe000 == 0x2000,
    }
}

/// The address that packets to it end up at: of one that is mapped, compatible, NAT64 or 6to4 the inner
/// one.
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
        // Not :: and ::1, which are addresses of their own.
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
#[path = "guard_tests.rs"]
mod tests;
