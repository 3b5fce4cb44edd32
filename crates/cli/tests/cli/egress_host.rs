//! `aplomb egress-host`, the real binary, in its own network namespace: what it configures on a node,
//! corrects and removes. The kernel's state is read with `ip`.
#![cfg(target_os = "linux")]

mod lab;
mod manifest;
mod names;

use self::lab::{Host, in_namespace, in_namespace_with_setpriv, ip};

const ADDRESS: &str = "203.0.113.7";

/// A node with one interface, an address of its own and a default route.
fn set_up_node() {
    ip("link set lo up");
    ip("link add eth0 type veth peer name far");
    ip("link set far up");
    ip("link set eth0 up");
    ip("address add 192.0.2.10/24 dev eth0");
    ip("route add default via 192.0.2.1 dev eth0");
}

fn addresses() -> String {
    ip("-oneline address show dev eth0")
}

#[test]
fn address_rule_and_routes_appear_and_go() {
    in_namespace("address_rule_and_routes_appear_and_go", || {
        set_up_node();
        let host = Host::start(&["--address", ADDRESS]);
        host.wait_for("Node is prepared");
        assert!(addresses().contains("inet 203.0.113.7/32"));
        assert!(ip("rule").contains("2010:\tfrom 203.0.113.7 lookup 2010"));
        let routes = ip("route show table 2010");
        let default = "default via 172.31.1.1 dev eth0";
        assert!(
            routes.contains(default) && routes.contains("src 203.0.113.7"),
            "{routes}"
        );
        assert!(routes.contains("172.31.1.1 dev eth0"), "{routes}");
        assert_eq!(host.get("/readyz"), (200, "ok\n".to_owned()));
        assert_eq!(host.get("/livez").0, 200);
        assert_eq!(host.stop("TERM"), Some(0));
        assert!(!addresses().contains(ADDRESS));
        assert!(addresses().contains("192.0.2.10/24"), "the node's own address stays");
        assert!(!ip("rule").contains(ADDRESS));
        assert_eq!(ip("route show table 2010"), "");
        assert!(ip("route").contains("default via 192.0.2.1"));
    });
}

/// Runs a program with one capability, as a container that drops all and adds this one.
const NET_ADMIN_ALONE: [&str; 5] = [
    "setpriv",
    "--no-new-privs",
    "--inh-caps=-all,+net_admin",
    "--ambient-caps=-all,+net_admin",
    "--bounding-set=-all,+net_admin",
];

#[test]
fn net_admin_alone_is_enough() {
    in_namespace_with_setpriv("net_admin_alone_is_enough", || {
        set_up_node();
        let host = Host::start_with(&NET_ADMIN_ALONE, &["--address", ADDRESS]);
        host.wait_for("Node is prepared");
        // CAP_NET_ADMIN is bit 12; root gets no more than the bounding set.
        assert_eq!(host.capabilities(), 1 << 12);
        assert!(addresses().contains("inet 203.0.113.7/32"));
        assert!(ip("rule").contains("from 203.0.113.7 lookup 2010"));
        assert!(ip("route show table 2010").contains("default via 172.31.1.1 dev eth0"));
        ip("rule del from 203.0.113.7");
        host.wait_for("is missing");
        host.wait_for("Node is prepared");
        assert_eq!(host.stop("TERM"), Some(0));
        assert!(!addresses().contains(ADDRESS));
        assert!(!ip("rule").contains(ADDRESS));
    });
}

#[test]
fn ipv6_has_a_table_of_its_own() {
    in_namespace("ipv6_has_a_table_of_its_own", || {
        set_up_node();
        let host = Host::start(&["--address", ADDRESS, "--address", "2001:db8::7"]);
        host.wait_for("Node is prepared");
        assert!(addresses().contains("inet6 2001:db8::7/128"));
        assert!(ip("-6 rule").contains("from 2001:db8::7 lookup 2011"));
        let routes = ip("-6 route show table 2011");
        assert!(routes.contains("default via fe80::1 dev eth0"), "{routes}");
        assert_eq!(host.stop("INT"), Some(0));
        assert!(!addresses().contains("2001:db8::7"));
        assert!(!ip("-6 rule").contains("2001:db8::7"));
    });
}

#[test]
fn removed_items_are_restored() {
    in_namespace("removed_items_are_restored", || {
        set_up_node();
        let host = Host::start(&["--address", ADDRESS]);
        host.wait_for("Node is prepared");
        for (taken, lost, show) in [
            ("address del 203.0.113.7/32 dev eth0", ADDRESS, "address"),
            ("rule del from 203.0.113.7", "from 203.0.113.7", "rule"),
            ("route flush table 2010", "172.31.1.1", "route show table 2010"),
        ] {
            ip(taken);
            assert!(!ip(show).contains(lost), "{taken}");
            host.wait_for("is missing");
            host.wait_for("Node is prepared");
            assert!(ip(show).contains(lost), "{taken}");
        }
        ip("link set eth0 down");
        host.wait_for("Network is down");
        assert_eq!(host.get("/readyz").0, 503);
        ip("link set eth0 up");
        host.wait_for("Node is prepared");
        assert_eq!(host.get("/readyz").0, 200);
        assert_eq!(host.stop("TERM"), Some(0));
        assert!(!addresses().contains(ADDRESS));
    });
}

#[test]
fn existing_items_stay() {
    in_namespace("existing_items_stay", || {
        set_up_node();
        ip("address add 203.0.113.7/32 dev eth0");
        let host = Host::start(&["--address", ADDRESS, "--interface", "eth0"]);
        host.wait_for("Node is prepared");
        assert_eq!(host.stop("TERM"), Some(0));
        assert!(addresses().contains("203.0.113.7/32"));
        assert!(!ip("rule").contains(ADDRESS));
    });
}

#[test]
fn a_restart_removes_items_left_by_a_crash() {
    in_namespace("a_restart_removes_items_left_by_a_crash", || {
        set_up_node();
        let host = Host::start(&["--address", ADDRESS]);
        host.wait_for("Node is prepared");
        assert_eq!(host.stop("KILL"), None);
        assert!(addresses().contains(ADDRESS));
        let host = Host::start(&["--address", "203.0.113.8"]);
        host.wait_for("Node is prepared");
        assert!(!addresses().contains(ADDRESS));
        assert!(addresses().contains("203.0.113.8/32"));
        assert_eq!(host.stop("TERM"), Some(0));
        assert!(!addresses().contains("203.0.113."));
        assert!(!ip("rule").contains("2010"));
    });
}

#[test]
fn errors_name_the_flag_or_the_capability() {
    in_namespace("errors_name_the_flag_or_the_capability", || {
        set_up_node();
        let fails = |arguments: &[&str], with: &str| {
            let host = Host::start(arguments);
            let (said, code) = host.wait_exit();
            assert!(said.contains(with), "{said}");
            assert_eq!(code, Some(2));
        };
        fails(&[], "--address");
        fails(&["--address", ADDRESS, "--interface", "eth7"], "--interface");
        fails(&["--address", ADDRESS, "--table", "254"], "--table");
        let taken = std::net::TcpListener::bind("127.0.0.1:9963").expect("free");
        fails(&["--address", ADDRESS], "--listen");
        drop(taken);
        // A new user namespace has no rights in this network namespace.
        let host = Host::start_with(&["unshare", "--user"], &["--address", ADDRESS]);
        let (said, code) = host.wait_exit();
        assert!(said.contains("NET_ADMIN"), "{said}");
        assert_eq!(code, Some(2));
        ip("route del default");
        fails(&["--address", ADDRESS], "--interface");
    });
}

#[test]
fn a_foreign_table_is_left_alone() {
    in_namespace("a_foreign_table_is_left_alone", || {
        set_up_node();
        ip("route add default via 192.0.2.99 dev eth0 table 2010");
        let host = Host::start(&["--address", ADDRESS]);
        host.wait_for("choose another --table");
        assert_eq!(host.get("/readyz").0, 503);
        assert_eq!(host.stop("TERM"), Some(0));
        assert!(ip("route show table 2010").contains("192.0.2.99"));
        assert!(!addresses().contains(ADDRESS));
    });
}
