//! What a Pod may share with its host: namespaces, ports, addresses, kernel settings, processes.

use std::collections::BTreeSet;

use super::super::pod::{Pod, items, string};
use super::super::words::{self, Setters, plural};
use super::Violation;

/// Settings of the kernel that stay within a Pod, and since when they may be set.
const SYSCTLS: [(&str, i64); 12] = [
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.tcp_wmem", 32),
];

/// The host's network, processes and memory.
pub(super) fn namespaces(pod: &Pod<'_>, _: i64) -> Option<Violation> {
    let shared: Vec<String> = ["hostNetwork", "hostPID", "hostIPC"]
        .into_iter()
        .filter(|member| pod.spec()[member] == true)
        .map(|member| format!("{member}=true"))
        .collect();
    if shared.is_empty() {
        return None;
    }
    Violation::new("host namespaces", shared.join(", "))
}

/// Ports of the host.
pub(super) fn ports(pod: &Pod<'_>, _: i64) -> Option<Violation> {
    let mut found = BTreeSet::new();
    let using = pod.containers_that(|container| {
        let ports = items(&container["ports"]).iter();
        let taken = ports.filter_map(|port| port["hostPort"].as_i64());
        let taken: Vec<String> = taken.filter(|port| *port != 0).map(|it| it.to_string()).collect();
        let some = !taken.is_empty();
        found.extend(taken);
        some
    });
    if using.is_empty() {
        return None;
    }
    let (who, verb) = (words::containers(&using), plural(using.len(), "uses", "use"));
    let what = plural(found.len(), "hostPort", "hostPorts");
    let ports = found.into_iter().collect::<Vec<_>>().join(", ");
    Violation::new("hostPort", format!("{who} {verb} {what} {ports}"))
}

/// Probes and hooks that a node would make to addresses of the author's choice.
pub(super) fn probes(pod: &Pod<'_>, _: i64) -> Option<Violation> {
    let (mut using, mut found) = (BTreeSet::new(), BTreeSet::new());
    for container in pod.containers() {
        let hooks = &container["lifecycle"];
        let handlers = [
            &container["livenessProbe"],
            &container["readinessProbe"],
            &container["startupProbe"],
            &hooks["postStart"],
            &hooks["preStop"],
        ];
        let hosts = handlers
            .iter()
            .flat_map(|it| [&it["httpGet"]["host"], &it["tcpSocket"]["host"]]);
        for host in hosts.map(string).filter(|host| !host.is_empty()) {
            using.insert(string(&container["name"]));
            found.insert(host);
        }
    }
    if using.is_empty() {
        return None;
    }
    let using: Vec<&str> = using.into_iter().collect();
    let (who, verb) = (words::containers(&using), plural(using.len(), "uses", "use"));
    let one = "probe or lifecycle host";
    let what = plural(found.len(), one, "probe or lifecycle hosts");
    let hosts = words::quoted(found);
    Violation::new(one, format!("{who} {verb} {what} {hosts}"))
}

/// Settings of the kernel that others would feel.
pub(super) fn sysctls(pod: &Pod<'_>, version: i64) -> Option<Violation> {
    let allowed = |name: &str| SYSCTLS.iter().any(|it| it.0 == name && it.1 <= version);
    let set = items(&pod.spec()["securityContext"]["sysctls"]).iter();
    let names = set.map(|it| string(&it["name"]));
    let bad: Vec<&str> = names.filter(|name| !allowed(name)).collect();
    if bad.is_empty() {
        return None;
    }
    Violation::new("forbidden sysctls", bad.join(", "))
}

/// Processes of a Windows host.
pub(super) fn processes(pod: &Pod<'_>, _: i64) -> Option<Violation> {
    let setters = Setters::of(pod, |it| it["windowsOptions"]["hostProcess"] == true);
    if setters.is_empty() {
        return None;
    }
    let who = setters.words();
    let detail = format!("{who} must not set securityContext.windowsOptions.hostProcess=true");
    Violation::new("hostProcess", detail)
}
