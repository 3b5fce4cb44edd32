//! Applies `deploy/` with kubectl, on the box and on a real kube-apiserver: everything is accepted, a second
//! apply changes nothing, and the samples are valid. Needs kubectl, so it runs only with `--ignored`.

use std::path::{Path, PathBuf};
use std::process::Command;

use aplomb_apiserver::ApiServer;
use aplomb_apiserver::standalone::{StandaloneConfig, start_with};
use aplomb_controlplane::{Binaries, ControlPlane, Options, Program};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// The installation of one operator.
struct Part {
    folder: &'static str,
    /// Objects that are installed before it, or that the samples need.
    prerequisites: &'static [&'static [&'static str]],
    definitions: fn() -> Vec<CustomResourceDefinition>,
    /// Objects that must exist afterwards.
    created: &'static [&'static str],
    samples: &'static [&'static str],
    /// A definition and its printed columns.
    columns: &'static [(&'static str, &'static str)],
}

const CODER: Part = Part {
    folder: "coder",
    prerequisites: &[&["create", "namespace", "coder"]],
    definitions: aplomb_api::coder_definitions,
    created: &["deployment.apps/aplomb-coder"],
    samples: &[
        "control-plane.yaml",
        "namespaced.yaml",
        "provisioner.yaml",
        "token.yaml",
        "workspace-proxy.yaml",
    ],
    columns: &[
        (
            "coderprovisioners.aplomb.dev",
            "Daemons Key Ready Reason Age Organization URL Phase",
        ),
        (
            "coderworkspaceproxies.aplomb.dev",
            "Registered Proxy Ready Reason Age URL",
        ),
    ],
};

const TUNNEL: Part = Part {
    folder: "tunnel",
    prerequisites: &[&["create", "-f", "deploy/tunnel/gateway-api/crds.yaml"]],
    definitions: aplomb_api::tunnel_definitions,
    created: &["deployment.apps/aplomb-tunnel", "deployment.apps/aplomb-gateway"],
    samples: &[
        "agent-rbac.yaml",
        "class.yaml",
        "hostname.yaml",
        "minimal.yaml",
        "tls.yaml",
    ],
    columns: &[(
        "httpproxies.aplomb.dev",
        "Hostname Connector Programmed Ready Reason Age",
    )],
};

const PARTS: [Part; 2] = [CODER, TUNNEL];
/// The user name of the Coder operator.
const ACCOUNT: &str = "--as=system:serviceaccount:aplomb-system:aplomb-coder";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// kubectl for one server.
struct Kubectl<'a> {
    program: &'a Path,
    kubeconfig: &'a Path,
}

impl Kubectl<'_> {
    /// Whether it succeeded, and its output and errors.
    async fn try_run(&self, args: &[&str]) -> (bool, String, String) {
        let mut command = Command::new(self.program);
        command.arg("--kubeconfig").arg(self.kubeconfig).args(args);
        command.current_dir(root());
        let output = tokio::task::spawn_blocking(move || command.output());
        let output = output.await.expect("a thread").expect("kubectl runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (said, complained) = (text(&output.stdout), text(&output.stderr));
        (output.status.success(), said, complained)
    }

    /// Its output; panics with its errors if it fails.
    async fn run(&self, args: &[&str]) -> String {
        let (well, said, complained) = self.try_run(args).await;
        assert!(well, "kubectl {args:?}: {complained}");
        said
    }

    async fn install(&self, part: &Part) {
        let folder = format!("deploy/{}/", part.folder);
        for args in part.prerequisites {
            self.run(args).await;
        }
        let said = self.run(&["apply", "-f", &folder]).await;
        for name in part.created {
            assert!(said.contains(name), "{said}");
        }
        for definition in (part.definitions)() {
            let name = definition.metadata.name.expect("a name");
            let wait = ["wait", "--for=condition=Established", "--timeout=60s"];
            self.run(&[&wait[..], &["crd", &name]].concat()).await;
        }
        for sample in part.samples {
            let file = format!("{folder}samples/{sample}");
            let dry = ["apply", "--server-side", "--dry-run=server"];
            self.run(&[&dry[..], &["-f", &file]].concat()).await;
        }
    }
}

#[tokio::test]
#[ignore = "needs the real control plane"]
async fn a_real_server_accepts_the_manifests() {
    let plane = ControlPlane::start(Options::default()).await;
    let plane = plane.expect("the control plane starts");
    let kubectl = Kubectl {
        program: plane.binaries().path(Program::Kubectl),
        kubeconfig: &plane.kubeconfig_path(),
    };
    for part in &PARTS {
        kubectl.install(part).await;
    }
    for part in &PARTS {
        // Exit code 1 means a difference: two writers would overwrite each other.
        let folder = format!("deploy/{}/", part.folder);
        kubectl.run(&["diff", "-f", &folder]).await;
        for (name, columns) in part.columns {
            let path = "jsonpath={.spec.versions[0].additionalPrinterColumns[*].name}";
            let found = kubectl.run(&["get", "crd", name, "-o", path]).await;
            assert_eq!(found, *columns);
        }
    }
    check_rights(&kubectl).await;
}

/// The operator can grant the rights that it has and no others.
async fn check_rights(kubectl: &Kubectl<'_>) {
    let role = |verbs: &'static str| {
        let resources = "--resource=pods,persistentvolumeclaims";
        let head = [ACCOUNT, "create", "role", "daemons", "--dry-run=server"];
        [&head[..], &[verbs, resources]].concat()
    };
    let held = "--verb=get,list,watch,create,update,patch,delete";
    kubectl.run(&role(held)).await;
    let more = role("--verb=get,deletecollection");
    let (well, _, complained) = kubectl.try_run(&more).await;
    assert!(!well && complained.contains("not currently held"), "{complained}");
    for (verb, resource) in [
        ("escalate", "roles"),
        ("bind", "roles"),
        ("impersonate", "serviceaccounts"),
        ("update", "codercontrolplanes.coder.com"),
        ("delete", "coderprovisioners.aplomb.dev"),
        ("create", "leases.coordination.k8s.io"),
        ("get", "nodes"),
    ] {
        let args = [ACCOUNT, "auth", "can-i", verb, resource, "-n", "default"];
        let (may, said, _) = kubectl.try_run(&args).await;
        assert!(!may && said.starts_with("no"), "{verb} {resource}: {said}");
    }
}

#[tokio::test]
#[ignore = "needs kubectl of the control plane"]
async fn the_box_accepts_the_manifests() {
    let binaries = tokio::task::spawn_blocking(Binaries::find_or_build).await;
    let binaries = binaries.expect("a thread").expect("kubectl");
    let dir = std::env::temp_dir().join(format!("aplomb-deploy-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let kubeconfig = dir.join("kubeconfig");
    let config = StandaloneConfig {
        kubeconfig: Some(kubeconfig.clone()),
        ..StandaloneConfig::default()
    };
    let server = ApiServer::builder().build();
    let running = start_with(server, config).await.expect("the box starts");
    let kubectl = Kubectl {
        program: binaries.path(Program::Kubectl),
        kubeconfig: &kubeconfig,
    };
    for part in &PARTS {
        kubectl.install(part).await;
    }
    running.stop().await;
    std::fs::remove_dir_all(dir).expect("the directory can be removed");
}

fn files(folder: &str, ending: &str) -> Vec<String> {
    let folder = std::fs::read_dir(root().join(folder)).expect("a folder");
    let names = folder.map(|file| file.expect("an entry").file_name());
    let names = names.map(|name| name.into_string().expect("UTF-8"));
    let mut names: Vec<String> = names.filter(|name| name.ends_with(ending)).collect();
    names.sort();
    names
}

#[test]
fn every_sample_is_applied() {
    for part in &PARTS {
        let folder = format!("deploy/{}/samples", part.folder);
        assert_eq!(files(&folder, ""), part.samples);
    }
}

#[test]
fn the_coder_operator_requests_no_wildcard_and_no_rbac_bypass() {
    for folder in ["deploy/coder", "deploy/coder/samples"] {
        for name in files(folder, ".yaml") {
            let text = std::fs::read_to_string(root().join(folder).join(&name)).expect("a file");
            for list in text.lines().filter(|line| line.contains("s: [")) {
                for word in ["*", "escalate", "bind,", "bind]", "impersonate"] {
                    assert!(!list.contains(word), "{name}: {list}");
                }
            }
        }
    }
}
