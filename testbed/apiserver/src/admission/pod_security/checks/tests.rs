//! Each check on its own, its words and its versions.

use serde_json::{Value, json};

use super::*;

/// What a standard says of a Pod with this specification and these annotations.
fn said(level: Level, minor: i64, spec: &Value, annotations: &Value) -> String {
    let object = json!({ "metadata": { "annotations": annotations }, "spec": spec });
    let version = Version::Minor(minor);
    judge(Standard { level, version }, &Pod::of(&object)).detail()
}

fn baseline(spec: &Value) -> String {
    said(Level::Baseline, NEWEST, spec, &Value::Null)
}

/// What is said beyond what is said of every Pod that sets nothing.
fn restricted(minor: i64, mut spec: Value) -> String {
    spec["securityContext"]["runAsNonRoot"] = json!(true);
    spec["securityContext"]["seccompProfile"] = json!({ "type": "RuntimeDefault" });
    said(Level::Restricted, minor, &spec, &Value::Null)
}

/// Two containers with this security context, so that words are in the plural.
fn two(context: &Value) -> Value {
    json!({ "initContainers": [{ "name": "b", "securityContext": context }],
        "containers": [{ "name": "a", "securityContext": context }] })
}

#[test]
fn checks_are_in_the_order_of_their_names_within_a_level() {
    let order: Vec<_> = CHECKS.iter().map(|it| (it.level, it.id)).collect();
    let mut sorted = order.clone();
    sorted.sort_unstable();
    assert_eq!(order, sorted);
    for id in CHECKS.iter().filter_map(|it| it.replaces) {
        assert!(CHECKS.iter().any(|it| it.id == id), "{id}");
    }
}

#[test]
fn what_is_shared_with_the_host_is_told() {
    assert_eq!(
        baseline(&json!({ "hostIPC": true, "hostNetwork": true, "hostPID": true })),
        "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)"
    );
    let ports = json!([{ "hostPort": 9 }, { "hostPort": 80 }, { "hostPort": 0 }]);
    assert_eq!(
        baseline(&json!({ "containers": [{ "name": "a", "ports": ports }] })),
        "hostPort (container \"a\" uses hostPorts 80, 9)"
    );
    let probed = json!({ "containers": [{ "name": "z",
        "livenessProbe": { "httpGet": { "host": "192.0.2.2" } },
        "lifecycle": { "preStop": { "tcpSocket": { "host": "192.0.2.1" } } } }],
        "ephemeralContainers": [{ "name": "a",
            "startupProbe": { "httpGet": { "host": "192.0.2.1" } } }] });
    assert_eq!(
        baseline(&probed),
        "probe or lifecycle host (containers \"a\", \"z\" use probe or lifecycle hosts \"192.0.2.1\", \"192.0.2.2\")"
    );
    assert_eq!(said(Level::Baseline, 33, &probed, &Value::Null), "");
    let spec = json!({ "securityContext": { "windowsOptions": { "hostProcess": true } } });
    assert_eq!(
        baseline(&spec),
        "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)"
    );
}

#[test]
fn settings_of_the_kernel_are_allowed_since_their_version() {
    let names = ["kernel.msgmax", "net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies"];
    let sysctls: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
    let spec = json!({ "securityContext": { "sysctls": sysctls } });
    assert_eq!(baseline(&spec), "forbidden sysctls (kernel.msgmax)");
    assert_eq!(
        said(Level::Baseline, 31, &spec, &Value::Null),
        "forbidden sysctls (kernel.msgmax, net.ipv4.tcp_rmem)"
    );
}

#[test]
fn what_containers_may_do_is_told() {
    let context = json!({ "privileged": true, "procMount": "Unmasked",
        "capabilities": { "add": ["SYS_TIME", "KILL", "NET_RAW"] } });
    let mut spec = two(&context);
    assert_eq!(
        baseline(&spec),
        "non-default capabilities (containers \"b\", \"a\" must not include \"NET_RAW\", \"SYS_TIME\" in securityContext.capabilities.add), \
         privileged (containers \"b\", \"a\" must not set securityContext.privileged=true), \
         procMount (containers \"b\", \"a\" must not set securityContext.procMount to \"Unmasked\")"
    );
    spec["hostUsers"] = json!(false);
    assert!(!baseline(&spec).contains("procMount"));
    assert!(restricted(35, spec.clone()).contains("procMount"));
    assert!(said(Level::Baseline, 34, &spec, &Value::Null).contains("procMount"));
}

#[test]
fn restricted_containers_give_everything_up() {
    let context = json!({ "capabilities": { "add": ["KILL", "NET_BIND_SERVICE"] } });
    let spec = json!({ "containers": [{ "name": "a", "securityContext": context }] });
    let keeps = "container \"a\" must set securityContext.capabilities.drop=[\"ALL\"]";
    let adds = "container \"a\" must not include \"KILL\" in securityContext.capabilities.add";
    let escalates =
        "allowPrivilegeEscalation != false (container \"a\" must set securityContext.allowPrivilegeEscalation=false)";
    assert_eq!(
        restricted(35, spec.clone()),
        format!("{escalates}, unrestricted capabilities ({keeps}; {adds})")
    );
    assert_eq!(restricted(21, spec.clone()), escalates);
    assert_eq!(restricted(7, spec.clone()), "");
    let mut windows = spec;
    windows["os"] = json!({ "name": "windows" });
    assert_eq!(restricted(25, windows.clone()), "");
    assert_ne!(restricted(24, windows), "");
}

#[test]
fn who_may_be_root_is_told_from_the_pod_down() {
    let silent = json!({ "containers": [{ "name": "a" }] });
    let of = |spec: &Value, minor| said(Level::Restricted, minor, spec, &Value::Null);
    assert_eq!(
        of(&silent, 0),
        "runAsNonRoot != true (pod or container \"a\" must set securityContext.runAsNonRoot=true)"
    );
    let mut said_no = two(&json!({ "runAsNonRoot": false, "runAsUser": 0 }));
    said_no["securityContext"] = json!({ "runAsNonRoot": true, "runAsUser": 0 });
    let not_root = "runAsNonRoot != true (containers \"b\", \"a\" must not set securityContext.runAsNonRoot=false)";
    assert_eq!(of(&said_no, 7), not_root);
    let not_zero = "runAsUser=0 (pod and containers \"b\", \"a\" must not set runAsUser=0)";
    assert!(of(&said_no, 34).contains(&format!("{not_root}, {not_zero}")));
    said_no["hostUsers"] = json!(false);
    assert!(!of(&said_no, 35).contains("runAs"));
}

#[test]
fn profiles_that_do_not_confine_are_told_with_their_values() {
    let off = json!({ "type": "Unconfined" });
    let spec = json!({
        "securityContext": { "seccompProfile": off, "appArmorProfile": off,
            "seLinuxOptions": { "type": "b_t", "user": "u", "role": "r" } },
        "containers": [{ "name": "a", "securityContext": { "seLinuxOptions": { "type": "a_t" } } }],
    });
    let loose = "pod must not set securityContext.seccompProfile.type to \"Unconfined\"";
    assert_eq!(
        baseline(&spec),
        format!(
            "forbidden AppArmor profile (pod must not set AppArmor profile type to \"Unconfined\"), \
             seLinuxOptions (pod and container \"a\" set forbidden securityContext.seLinuxOptions: types \"a_t\", \"b_t\"; user may not be set; role may not be set), \
             seccompProfile ({loose})"
        )
    );
    let engine = json!({ "securityContext": { "seLinuxOptions": { "type": "container_engine_t" } } });
    assert_eq!(baseline(&engine), "");
    assert_ne!(said(Level::Baseline, 30, &engine, &Value::Null), "");
    let silent = json!({ "securityContext": { "runAsNonRoot": true }, "containers": [{ "name": "a" }] });
    assert!(said(Level::Restricted, 19, &silent, &Value::Null).ends_with(
        "seccompProfile (pod or container \"a\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")"
    ));
}

#[test]
fn annotations_that_came_before_fields_count() {
    let annotations = json!({
        "container.apparmor.security.beta.kubernetes.io/b": "unconfined",
        "container.apparmor.security.beta.kubernetes.io/a": "localhost/fine",
        "container.seccomp.security.alpha.kubernetes.io/a": "unconfined",
        "container.seccomp.security.alpha.kubernetes.io/other": "unconfined",
        "seccomp.security.alpha.kubernetes.io/pod": "docker/default",
    });
    let spec = json!({ "containers": [{ "name": "a" }] });
    let of = |minor| said(Level::Baseline, minor, &spec, &annotations);
    let app_armor = "forbidden AppArmor profile (annotation must not set AppArmor profile type to \"container.apparmor.security.beta.kubernetes.io/b=\"unconfined\"\")";
    assert_eq!(of(19), app_armor);
    assert_eq!(
        of(18),
        format!(
            "{app_armor}, seccompProfile (forbidden annotation container.seccomp.security.alpha.kubernetes.io/a=\"unconfined\")"
        )
    );
}

#[test]
fn volumes_are_told_by_their_sources() {
    let spec = json!({ "volumes": [
        { "name": "fine", "emptyDir": {}, "hostPath": null },
        { "name": "h", "hostPath": { "path": "/" } },
        { "name": "n", "nfs": {} },
        { "name": "x" },
    ]});
    assert_eq!(baseline(&spec), "hostPath volumes (volume \"h\")");
    assert_eq!(
        restricted(0, spec),
        "restricted volume types (volumes \"h\", \"n\", \"x\" use restricted volume types \"hostPath\", \"nfs\", \"unknown\")"
    );
}
