//! `deploy/tunnel` with kubectl, on the box and on a real kube-apiserver: it is accepted whole, a second
//! time changes nothing, and the samples are valid. Needs kubectl, so it runs only when asked for.

use std::path::{Path, PathBuf};
use std::process::Command;

use aplomb_controlplane::{Binaries, ControlPlane, Options, Program};
use aplomb_sim::ApiServer;
use aplomb_sim::http::{BoxConfig, start_with};

const SAMPLES: [&str; 5] = [
    "agent-rbac.yaml",
    "class.yaml",
    "hostname.yaml",
    "minimal.yaml",
    "tls.yaml",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What kubectl prints; panics with its complaint if it fails.
async fn kubectl(program: &Path, kubeconfig: &Path, args: &[&str]) -> String {
    let mut command = Command::new(program);
    command.arg("--kubeconfig").arg(kubeconfig).args(args);
    command.current_dir(root());
    let output = tokio::task::spawn_blocking(move || command.output());
    let output = output.await.expect("a thread").expect("kubectl runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "kubectl {args:?}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

async fn install(program: &Path, kubeconfig: &Path) {
    let run = async |args: &[&str]| kubectl(program, kubeconfig, args).await;
    run(&["create", "-f", "deploy/tunnel/gateway-api/crds.yaml"]).await;
    let said = run(&["apply", "-f", "deploy/tunnel/"]).await;
    for name in [
        "deployment.apps/aplomb-tunnel",
        "deployment.apps/aplomb-gateway",
    ] {
        assert!(said.contains(name), "{said}");
    }
    let established = [
        "wait",
        "--for=condition=Established",
        "--timeout=60s",
        "crd",
    ];
    for definition in aplomb_api::tunnel_definitions() {
        let name = definition.metadata.name.expect("a name");
        run(&[&established[..], &[&name]].concat()).await;
    }
    for sample in SAMPLES {
        let file = format!("deploy/tunnel/samples/{sample}");
        run(&["apply", "--server-side", "--dry-run=server", "-f", &file]).await;
    }
}

#[tokio::test]
#[ignore = "needs the real control plane"]
async fn it_is_accepted_by_a_real_server() {
    let plane = ControlPlane::start(Options::default()).await;
    let plane = plane.expect("the control plane starts");
    let (program, kubeconfig) = (
        plane.binaries().path(Program::Kubectl),
        plane.kubeconfig_path(),
    );
    install(program, &kubeconfig).await;
    // It ends with 1 for a difference.
    kubectl(program, &kubeconfig, &["diff", "-f", "deploy/tunnel/"]).await;
    let columns = kubectl(
        program,
        &kubeconfig,
        &[
            "get",
            "crd",
            "httpproxies.aplomb.dev",
            "-o",
            "jsonpath={.spec.versions[0].additionalPrinterColumns[*].name}",
        ],
    )
    .await;
    assert_eq!(columns, "Hostname Connector Programmed Ready Reason Age");
}

#[tokio::test]
#[ignore = "needs kubectl of the control plane"]
async fn it_is_accepted_by_the_box() {
    let binaries = tokio::task::spawn_blocking(Binaries::find_or_build).await;
    let binaries = binaries.expect("a thread").expect("kubectl");
    let dir = std::env::temp_dir().join(format!("aplomb-deploy-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let kubeconfig = dir.join("kubeconfig");
    let config = BoxConfig {
        kubeconfig: Some(kubeconfig.clone()),
        ..BoxConfig::default()
    };
    let server = ApiServer::builder().build();
    let running = start_with(server, config).await.expect("the box starts");
    install(binaries.path(Program::Kubectl), &kubeconfig).await;
    running.stop().await;
    std::fs::remove_dir_all(dir).expect("the directory goes");
}

#[test]
fn every_sample_is_tried() {
    let folder = std::fs::read_dir(root().join("deploy/tunnel/samples")).expect("a folder");
    let mut names: Vec<String> = folder
        .map(|file| {
            file.expect("an entry")
                .file_name()
                .into_string()
                .expect("UTF-8")
        })
        .collect();
    names.sort();
    assert_eq!(names, SAMPLES);
}
