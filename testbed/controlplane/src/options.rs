//! What a control plane is started with, and the flags that follow from it.

use std::path::Path;

use crate::certs::Certs;

/// How to start a control plane.
#[derive(Clone, Debug)]
pub struct Options {
    /// Authorise by stored roles and bindings; otherwise everybody may do everything.
    pub rbac: bool,
    /// Write an audit log (level Metadata, one line per request).
    pub audit_log: bool,
    /// Controllers for kube-controller-manager; it is started only when there are some.
    pub controllers: Vec<String>,
    /// More flags for kube-apiserver.
    pub apiserver_args: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rbac: true,
            audit_log: false,
            controllers: Vec::new(),
            apiserver_args: Vec::new(),
        }
    }
}

impl Options {
    /// With what a small cluster's controller manager does that clients rely on.
    #[must_use]
    pub fn with_controllers() -> Self {
        let controllers = [
            "garbage-collector-controller",
            "namespace-controller",
            "serviceaccount-controller",
            "root-ca-certificate-publisher-controller",
            "replicaset-controller",
            "deployment-controller",
            "clusterrole-aggregation-controller",
            "resourcequota-controller",
        ];
        Self {
            controllers: controllers.map(str::to_owned).to_vec(),
            ..Self::default()
        }
    }

    /// With the controllers that deletion depends on.
    #[must_use]
    pub fn with_garbage_collection() -> Self {
        let controllers = ["garbage-collector-controller", "namespace-controller"];
        Self {
            controllers: controllers.map(str::to_owned).to_vec(),
            ..Self::default()
        }
    }
}

pub(crate) fn etcd_args(dir: &Path, client: u16, peer: u16) -> Vec<String> {
    let client = format!("http://127.0.0.1:{client}");
    let peer = format!("http://127.0.0.1:{peer}");
    vec![
        format!("--data-dir={}", dir.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
    ]
}

pub(crate) fn apiserver_args(dir: &Path, certs: &Certs, options: &Options, etcd: u16, port: u16) -> Vec<String> {
    let mode = if options.rbac { "RBAC" } else { "AlwaysAllow" };
    let mut args = vec![
        format!("--etcd-servers=http://127.0.0.1:{etcd}"),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--cert-dir={}", dir.join(format!("certs-{port}")).display()),
        format!("--tls-cert-file={}", certs.serving.display()),
        format!("--tls-private-key-file={}", certs.serving_key.display()),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        format!("--authorization-mode={mode}"),
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        format!("--service-account-issuer=https://127.0.0.1:{port}/"),
        format!("--service-account-key-file={}", certs.accounts_public.display()),
        format!("--service-account-signing-key-file={}", certs.accounts_key.display()),
        format!("--token-auth-file={}", dir.join("tokens.csv").display()),
        "--allow-privileged=true".to_owned(),
        "--shutdown-delay-duration=0s".to_owned(),
    ];
    if options.audit_log {
        args.push(format!(
            "--audit-policy-file={}",
            dir.join("audit-policy.yaml").display()
        ));
        args.push(format!("--audit-log-path={}", dir.join("audit.log").display()));
    }
    args.extend(options.apiserver_args.iter().cloned());
    args
}

pub(crate) fn controller_manager_args(kubeconfig: &Path, certs: &Certs, controllers: &[String]) -> Vec<String> {
    vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--controllers={}", controllers.join(",")),
        format!("--root-ca-file={}", certs.authority.display()),
        format!("--service-account-private-key-file={}", certs.accounts_key.display()),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
        "--use-service-account-credentials=false".to_owned(),
        "--kube-api-qps=400".to_owned(),
        "--kube-api-burst=800".to_owned(),
    ]
}

/// One rule: metadata of every request, once it is answered.
pub(crate) const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
";
