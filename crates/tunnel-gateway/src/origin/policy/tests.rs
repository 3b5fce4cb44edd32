//! Tests of the address policy, address by address.

use proptest::prelude::*;

use super::*;

fn check(guard: &AddressPolicy, opened: &[IpNet], address: &str, port: u16) -> Result<(), AddressRefusal> {
    let ip = address.parse().expect("an address");
    guard.check(SocketAddr::new(ip, port), opened)
}

fn networks(texts: &[&str]) -> Vec<IpNet> {
    let parse = |text: &&str| text.parse().expect("a network");
    texts.iter().map(parse).collect()
}

const EVERYTHING: [&str; 2] = ["0.0.0.0/0", "::/0"];

const METADATA_SERVICES: [&str; 14] = [
    "169.254.169.254",
    "169.254.170.2",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd00:ec2:ffff::1",
    "fd20:ce::254",
    "fe80::a9fe:a9fe",
    "::ffff:169.254.169.254",
    "64:ff9b::169.254.169.254",
    "2002:a9fe:a9fe::1",
    "::169.254.169.254",
];

#[test]
fn what_is_not_public_is_closed() {
    let guard = AddressPolicy::default();
    for address in [
        "10.0.0.1",
        "10.255.255.255",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "100.64.0.1",
        "100.127.255.255",
        "127.0.0.1",
        "127.8.9.1",
        "0.0.0.0",
        "169.254.1.1",
        "192.0.0.8",
        "198.18.0.1",
        "198.19.255.255",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fc00::1",
        "fd00::1",
        "fdff::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
        "100::1",
        "2001::1",
        "64:ff9b:1::1",
        "5f00::1",
        "::ffff:10.0.0.1",
        "::ffff:127.0.0.1",
        "::127.0.0.1",
        "::10.0.0.1",
        "::ffff:0:10.0.0.1",
        "64:ff9b::10.0.0.1",
        "64:ff9b::192.168.1.1",
        "2002:0a00:0001::1",
        "2002:7f00:1::1",
        "2002:6440:1::1",
    ] {
        let why = check(&guard, &[], address, 80).expect_err(address);
        assert!(matches!(why, AddressRefusal::Network(_)), "{address}: {why}");
        assert!(why.to_string().contains("spec.backendNetworks"), "{why}");
        assert!(!why.to_string().contains(address), "{why}");
    }
}

#[test]
fn what_is_public_is_open() {
    let guard = AddressPolicy::default();
    for address in [
        "8.8.8.8",
        "172.15.255.255",
        "172.32.0.1",
        "100.63.255.255",
        "100.128.0.1",
        "2a00:1450::1",
        "2606:4700::1111",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "2002:808:808::1",
    ] {
        check(&guard, &[], address, 80).expect(address);
    }
}

#[test]
fn a_class_opens_its_networks_and_no_others() {
    let guard = AddressPolicy::default();
    let opened = networks(&["10.1.0.0/16", "fd12:3456::/48", "127.0.0.1/32"]);
    for (address, open) in [
        ("10.1.2.3", true),
        ("::ffff:10.1.2.3", true),
        ("64:ff9b::10.1.2.3", true),
        ("10.2.0.1", false),
        ("fd12:3456::7", true),
        ("fd12:3457::7", false),
        ("127.0.0.1", true),
        ("127.0.0.2", false),
        ("8.8.8.8", true),
    ] {
        let fine = check(&guard, &opened, address, 80).is_ok();
        assert_eq!(fine, open, "{address}");
    }
    // Permitting the outer form of an address does not permit the embedded one.
    let forms = networks(&["::/0"]);
    for address in ["::ffff:10.0.0.1", "64:ff9b::10.0.0.1", "2002:a00:1::1"] {
        check(&guard, &forms, address, 80).expect_err(address);
    }
}

#[test]
fn metadata_and_kubelets_stay_closed_in_an_open_network() {
    for guard in [
        AddressPolicy::default(),
        AddressPolicy::new(networks(&EVERYTHING), &[], &[]),
    ] {
        for address in METADATA_SERVICES {
            let why = check(&guard, &networks(&EVERYTHING), address, 80);
            assert_eq!(why, Err(AddressRefusal::Metadata), "{address}");
        }
    }
    let guard = AddressPolicy::default();
    let opened = networks(&["10.0.0.0/8", "10.0.0.7/32", "fd12::/16", "fd12::7/128"]);
    for port in KUBELET_PORTS {
        for (address, open) in [
            ("10.0.0.6", false),
            ("10.0.0.7", true),
            ("::ffff:10.0.0.6", false),
            ("::ffff:10.0.0.7", true),
            ("fd12::6", false),
            ("fd12::7", true),
            ("8.8.8.8", false),
        ] {
            let judged = check(&guard, &opened, address, port);
            let wanted = if open { Ok(()) } else { Err(AddressRefusal::Kubelet) };
            assert_eq!(judged, wanted, "{address} {port}");
        }
    }
    check(&guard, &opened, "10.0.0.6", 10251).expect("another port");
}

#[test]
fn the_gateways_own_listeners_stay_closed_in_an_open_network() {
    let all = networks(&EVERYTHING);
    let guard = AddressPolicy::new(all.clone(), &[], &[8080, 9090]);
    for address in ["127.0.0.1", "127.0.0.9", "::ffff:127.0.0.1", "0.0.0.0"] {
        let judge = |port| check(&guard, &all, address, port);
        assert_eq!(judge(8080), Err(AddressRefusal::OwnListener), "{address}");
        assert_eq!(judge(9090), Err(AddressRefusal::OwnListener), "{address}");
        assert_eq!(judge(8081), Ok(()), "{address}");
    }
    assert_eq!(check(&guard, &all, "10.99.99.99", 8080), Ok(()));
}

#[test]
fn flags_allow_and_deny_for_every_class() {
    let guard = AddressPolicy::new(
        networks(&["10.1.2.0/24"]),
        &networks(&["10.1.0.0/16", "8.8.0.0/16", "2a00::/16"]),
        &[],
    );
    let opened = networks(&["10.0.0.0/8"]);
    for (address, wanted) in [
        ("10.1.2.3", Ok(())),
        ("10.1.3.3", Err(AddressRefusal::Denied)),
        ("10.2.0.1", Ok(())),
        ("8.8.8.8", Err(AddressRefusal::Denied)),
        ("::ffff:8.8.8.8", Err(AddressRefusal::Denied)),
        ("2a00::1", Err(AddressRefusal::Denied)),
    ] {
        assert_eq!(check(&guard, &opened, address, 80), wanted, "{address}");
    }
}

proptest! {
    #[test]
    fn an_address_is_no_better_for_being_written_as_ipv6(bits: u32, inner in 0_u32..3, port: u16) {
        let opened = networks(&["10.7.0.0/16"]);
        let plain = Ipv4Addr::from_bits([bits, 0x0a00_0000 | bits >> 8, 0x0a07_0000][inner as usize]);
        let high = u128::from(plain.to_bits());
        for form in [
            plain.to_ipv6_mapped(),
            Ipv6Addr::from_bits(0x0064_ff9b << 96 | high),
            Ipv6Addr::from_bits(0x2002 << 112 | high << 80 | 1),
        ] {
            let guard = AddressPolicy::default();
            let same = guard.check(SocketAddr::new(form.into(), port), &opened);
            prop_assert_eq!(guard.check(SocketAddr::new(plain.into(), port), &opened), same);
        }
    }
}
