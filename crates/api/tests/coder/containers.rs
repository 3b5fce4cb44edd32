//! Container settings of both kinds: values that would keep pods from starting are rejected.

use serde_json::{Value, json};

use crate::Lab;
use crate::fixtures::{PROVISIONER, PROXY, provisioner, proxy};
use crate::lab::Refusal;

fn env(name: &str) -> Value {
    json!({ "extraEnv": [{ "name": "TF_LOG", "value": "info" }, { "name": name, "value": "x" }] })
}

fn shared_refusals() -> Vec<Refusal> {
    let source = |value: Value| json!({ "extraEnv": [{ "name": "A", "valueFrom": value }] });
    let many: Vec<Value> = (0..65).map(|n| json!({ "name": format!("A{n}") })).collect();
    let name = "spec.extraEnv[1].name";
    vec![
        (env(""), name, "at least 1"),
        (env("A=B"), name, "like TF_LOG"),
        (env("A B"), name, "like TF_LOG"),
        (env("TF_LOG"), "spec.extraEnv[1]", "Duplicate value"),
        (json!({ "extraEnv": many }), "spec.extraEnv", "at most 64"),
        (
            json!({ "extraEnv": [{ "name": "A", "value": "b", "valueFrom": {
                "fieldRef": { "fieldPath": "spec.nodeName" },
            } }] }),
            "spec.extraEnv[0]",
            "give value or valueFrom",
        ),
        (
            source(json!({})),
            "spec.extraEnv[0].valueFrom",
            "exactly one of configMapKeyRef",
        ),
        (
            source(json!({ "secretKeyRef": { "name": "a" } })),
            "spec.extraEnv[0].valueFrom.secretKeyRef.key",
            "Required",
        ),
        (json!({ "image": "" }), "spec.image", "at least 1"),
        (json!({ "image": "a b" }), "spec.image", "without spaces"),
        (json!({ "image": "a".repeat(1025) }), "spec.image", "1024"),
        (json!({ "extraArgs": vec!["-v"; 65] }), "spec.extraArgs", "at most 64"),
        (json!({ "extraArgs": ["a".repeat(4097)] }), "spec.extraArgs[0]", "4096"),
        (
            json!({ "imagePullSecrets": [{ "name": "a" }, { "name": "a" }] }),
            "spec.imagePullSecrets[1]",
            "Duplicate value",
        ),
        (
            json!({ "imagePullSecrets": [{ "name": "A" }] }),
            "spec.imagePullSecrets[0].name",
            "like web-1",
        ),
        (
            json!({ "resources": { "limits": { "memory": "2GB" } } }),
            "spec.resources.limits.memory",
            "should match",
        ),
    ]
}

fn provisioner_refusals() -> Vec<Refusal> {
    let at = "spec.extraEnv";
    let arg = |arg: &str| json!({ "extraArgs": ["--log-json", arg] });
    let args = "use server, key, tags and organizationName";
    vec![
        (env("CODER_URL"), at, "use controlPlaneRef or server.url"),
        (env("CODER_PROVISIONER_DAEMON_KEY"), at, "use key"),
        (env("CODER_PROVISIONER_DAEMON_PSK"), at, "use key"),
        (env("CODER_PROVISIONERD_TAGS"), at, "use tags"),
        (env("CODER_ORGANIZATION"), at, "use organizationName"),
        (arg("--key"), "spec.extraArgs", args),
        (arg("--psk=x"), "spec.extraArgs", args),
        (arg("--tag=a=b"), "spec.extraArgs", args),
        (arg("-t"), "spec.extraArgs", args),
        (arg("-tfoo=bar"), "spec.extraArgs", args),
        (arg("-Ox"), "spec.extraArgs", args),
        (arg("--url=http://x"), "spec.extraArgs", args),
        (arg("--org=x"), "spec.extraArgs", args),
    ]
}

fn proxy_refusals() -> Vec<Refusal> {
    let at = "spec.extraEnv";
    let arg = |arg: &str| json!({ "extraArgs": [arg] });
    let args = "use primaryAccessURL, proxySessionTokenSecretRef";
    vec![
        (env("CODER_PRIMARY_ACCESS_URL"), at, "use primaryAccessURL"),
        (env("CODER_PROXY_SESSION_TOKEN"), at, "use proxySessionTokenSecretRef"),
        (arg("--proxy-session-token=x"), "spec.extraArgs", args),
        (arg("--primary-access-url"), "spec.extraArgs", args),
        (arg("--http-address=:80"), "spec.extraArgs", args),
    ]
}

pub(crate) async fn rejects(lab: Lab) {
    let table = [shared_refusals(), provisioner_refusals()].concat();
    lab.refuses(PROVISIONER, provisioner(), table).await;
    let table = [shared_refusals(), proxy_refusals()].concat();
    lab.refuses(PROXY, proxy(), table).await;
}
