//! `aplomb trace` and `aplomb status`, the real binaries, on `aplomb box`: a tunnel created during many conflicts.

mod origin;
mod storm;

use aplomb_console::trace::{MomentSource, ObjectTrace};
use serde_json::{Value, json};

use self::storm::{RIVAL_MANAGER, Storm};
use crate::boxed::{Boxed, err, has_kubectl, out};
use crate::process::Process;

/// More than the number of lines in a journal.
const CONFLICTS: u32 = 80;
const TUNNEL: &str = "/apis/aplomb.dev/v1alpha1/namespaces/default/httpproxies/web";

/// The operator, a gateway and an agent for a tunnel named web.
struct Stage {
    server: Boxed,
    operator: Process,
    _gateway: Process,
    _agent: Process,
}

fn start_stage(server: Boxed, kubeconfig: &str) -> Stage {
    let dir = server.dir().to_owned();
    let own = server.kubeconfig();
    let own = own.to_str().expect("a path").to_owned();
    let key = |name: &str| dir.join(name).to_str().expect("a path").to_owned();
    let run = [
        "run",
        "tunnel",
        "--kubeconfig",
        kubeconfig,
        "--domain",
        "tunnels.example.com",
    ];
    let operator = Process::aplomb(&dir, "operator", &run).expect("an operator");
    let listen = ["--listen", "127.0.0.1:0", "--key-file", &key("gateway.key")];
    let words = [&["gateway", "--kubeconfig", &own][..], &listen].concat();
    let gateway = Process::aplomb(&dir, "gateway", &words).expect("a gateway");
    let port = origin::start().to_string();
    let words = [
        "connect",
        &port,
        "--kubeconfig",
        &own,
        "--name",
        "web",
        "--hostname",
        "app.example.com",
        "--key-file",
        &key("agent.key"),
    ];
    let agent = Process::aplomb(&dir, "agent", &words).expect("an agent");
    server.kubectl(&["wait", "--for=create", "--timeout=60s", "httpproxy/web"], "");
    let ready = ["wait", "--for=condition=Ready", "--timeout=180s", "httpproxy/web"];
    server.kubectl(&ready, "");
    Stage {
        server,
        operator,
        _gateway: gateway,
        _agent: agent,
    }
}

#[tokio::test]
async fn a_tunnel_made_in_a_conflict_storm_reports_its_conflicts_and_winners() {
    if !has_kubectl() {
        return;
    }
    install_crypto_provider();
    let server = Boxed::with_kinds(&[]);
    let stormy = server.dir().join("stormy");
    let storm = Storm::start(&server.kubeconfig(), &stormy, TUNNEL, CONFLICTS).await;
    let words = stormy.to_str().expect("a path").to_owned();
    let stage = tokio::task::spawn_blocking(move || start_stage(server, &words)).await;
    let mut stage = stage.expect("a proven tunnel");
    assert_eq!(storm.remaining(), 0);
    let stage = tokio::task::spawn_blocking(move || {
        check_text(&stage.server);
        check_journal(&stage.server);
        stage.operator.terminate().expect("it ends");
        check_without_operators(&stage.server);
        stage
    });
    drop(stage.await.expect("the assertions hold"));
}

/// Each stage, with the conflicts in between and the winner of each.
fn check_text(server: &Boxed) {
    let output = server.aplomb(&["trace", "hp/web", "-o", "json"]);
    assert!(output.status.success(), "{}", err(&output));
    let trace: ObjectTrace = serde_json::from_slice(&output.stdout).expect("a trace");
    let reached: Vec<&str> = trace
        .stages
        .iter()
        .filter(|it| it.at.is_some())
        .map(|it| it.name.as_str())
        .collect();
    assert_eq!(
        reached,
        ["Created", "Accepted", "Children written", "Programmed", "Proven"]
    );
    let met: u64 = trace.stages.iter().map(|stage| stage.conflicts).sum();
    assert_eq!(met, u64::from(CONFLICTS), "{:?}", trace.stages);
    let won = trace.stages.iter().flat_map(|stage| &stage.won_by);
    let by_rival = won.filter(|it| it.manager.as_deref() == Some(RIVAL_MANAGER));
    assert_eq!(by_rival.map(|it| it.times).sum::<u64>(), u64::from(CONFLICTS));
    check_relatives(&trace);
    let text = out(&server.aplomb(&["trace", "httpproxy", "web"]));
    println!("{text}");
    let parts = [
        "STAGE",
        "GAP",
        "CONFLICTS",
        "WON BY",
        "Proven",
        "other x",
        "├─ Gateway/web",
        "└─ Lease/",
    ];
    for part in parts {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
}

/// Its relatives and its writers.
fn check_relatives(trace: &ObjectTrace) {
    let kinds: Vec<&str> = trace.tree.children.iter().map(|child| child.kind.as_str()).collect();
    assert_eq!(
        kinds,
        ["Gateway", "HTTPRoute", "EndpointSlice", "HostnameClaim", "Connector"]
    );
    let connector = &trace.tree.children[4];
    assert_eq!(connector.children[0].kind, "Lease");
    assert!(
        trace
            .timeline
            .iter()
            .any(|it| it.who == RIVAL_MANAGER && it.from == MomentSource::ManagedFields)
    );
}

/// A status without problems.
fn check_journal(server: &Boxed) {
    let output = server.aplomb(&["status", "--wait", "--timeout", "60s"]);
    let text = out(&output);
    println!("{text}{}", err(&output));
    assert_eq!(output.status.code(), Some(0), "{text}{}", err(&output));
    for part in ["aplomb-tunnel   leading", "HTTPProxy", "apiserver", "1/1"] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    let unready = json!({ "apiVersion": "aplomb.dev/v1alpha1", "kind": "HTTPProxy", "metadata": { "name": "other" },
        "spec": { "rules": [{ "backends": [{ "endpoint": "http://localhost:1", "connector": { "name": "missing" } }] }] } });
    server.kubectl(&["create", "-f", "-"], &unready.to_string());
    let output = server.aplomb(&["status", "--wait", "--timeout", "2s", "-o", "json"]);
    assert_eq!(output.status.code(), Some(124));
    let status: Value = serde_json::from_slice(&output.stdout).expect("a status");
    let findings = status["findings"].as_array().expect("findings");
    assert!(findings.iter().any(|it| it["name"] == "other"), "{findings:?}");
    assert_eq!(server.aplomb(&["status"]).status.code(), Some(1));
}

/// Without the operator, the API server's part is printed, and what is missing is reported.
fn check_without_operators(server: &Boxed) {
    let output = server.aplomb(&["trace", "hp/web"]);
    assert!(output.status.success(), "{}", err(&output));
    assert!(out(&output).contains("Proven"), "{}", out(&output));
    assert!(err(&output).contains("aplomb: not shown: "), "{}", err(&output));
    let output = server.aplomb(&["status"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(out(&output).contains("NobodyLeads"), "{}", out(&output));
}

#[test]
fn a_missing_object_is_a_finding() {
    let server = Boxed::with_kinds(&[]);
    let output = server.aplomb(&["trace", "hp/missing"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("\"missing\" not found"), "{}", err(&output));
}

fn install_crypto_provider() {
    // A second test of the same process finds it installed.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
}
