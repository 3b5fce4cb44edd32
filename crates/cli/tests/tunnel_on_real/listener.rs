//! The TLS listener: certificates from Secrets, and a new one without a dropped request.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use tokio::time::Instant;

use crate::authority::Authority;
use crate::curl::Curl;
use crate::fixtures::{secret, tunnel};
use crate::stage::{Stage, TIMEOUT};
use crate::{TENANT, Tally, TestRun};

const HOST: &str = "secure.example.com";

pub(crate) async fn run(play: &mut TestRun, tally: &mut Tally) {
    tally.record(
        "curl --cacert, and a handshake after a new Secret",
        check_certificate(play).await,
    );
    tally.record(
        "a Secret that is created later is used at once",
        check_late_certificate(play).await,
    );
}

async fn check_certificate(play: &TestRun) -> Result<()> {
    let stage = &play.stage;
    let authority = Authority::new(stage.dir())?;
    let ca = authority.path.to_str().context("a path")?;
    let first = authority.issue(HOST, 0x1111)?;
    stage.apply(&secret(TENANT, "certificate", &first.certificate, &first.key))?;
    let mut object = tunnel(TENANT, "secure", HOST, TENANT, &play.endpoint());
    object["spec"]["tls"]["secretName"] = "certificate".into();
    stage.apply(&object)?;
    stage.wait_for(TENANT, "hp/secure", "condition=Ready")?;
    let listen = &stage.gateways[0].listen_tls;
    for (flag, version) in [("--http1.1", "1.1"), ("--http2", "2")] {
        let answer = Curl::https(listen, HOST, "/", ca).with_args(&[flag]).send()?;
        ensure!(answer.status == 200 && answer.version == version, "{answer:?}");
    }
    ensure!(
        certificate_serial(listen)? == "1111",
        "another certificate: {}",
        certificate_serial(listen)?
    );

    let prober = stage.start_prober(TENANT, "secure", HOST)?;
    let second = authority.issue(HOST, 0x2222)?;
    let replaced = Instant::now();
    stage.apply(&secret(TENANT, "certificate", &second.certificate, &second.key))?;
    let mut handshakes = 0;
    while certificate_serial(listen)? != "2222" {
        handshakes += 1;
        Curl::https(listen, HOST, "/", ca).fetch_body()?;
        ensure!(replaced.elapsed() < TIMEOUT, "the old certificate is still served");
    }
    println!(
        "        the new one {:.1?} after kubectl began, {handshakes} requests meanwhile",
        replaced.elapsed()
    );
    Curl::https(listen, HOST, "/", ca).fetch_body()?;
    let verdict = prober.finish()?;
    ensure!(verdict.failures == 0, "{} requests were dropped", verdict.failures);
    let ready = ".status.conditions[?(@.type==\"CertificatesReady\")].status";
    ensure!(
        stage.read_field(TENANT, "hp/secure", ready)? == "True",
        "CertificatesReady is not True"
    );
    stage.kubectl(&["delete", "-n", TENANT, "hp/secure", "secret/certificate"])?;
    Ok(())
}

/// The serial number of the certificate that a handshake gets, in hex.
fn certificate_serial(listen: &str) -> Result<String> {
    let script = format!(
        "openssl s_client -connect {listen} -servername {HOST} </dev/null 2>/dev/null | openssl x509 -noout -serial"
    );
    let output = Command::new("sh").args(["-c", &script]).output()?;
    let text = String::from_utf8(output.stdout)?;
    let serial = text
        .trim()
        .strip_prefix("serial=")
        .context("openssl prints no serial")?;
    Ok(serial.trim_start_matches('0').to_owned())
}

async fn check_late_certificate(play: &TestRun) -> Result<()> {
    let stage: &Stage = &play.stage;
    let authority = Authority::new(stage.dir())?;
    let name = "late.example.com";
    let mut object = tunnel(TENANT, "late", name, TENANT, &play.endpoint());
    object["spec"]["tls"]["secretName"] = "late".into();
    stage.apply(&object)?;
    let reason = ".status.conditions[?(@.type==\"CertificatesReady\")].reason";
    let missing = async || {
        stage
            .read_field(TENANT, "hp/late", reason)
            .is_ok_and(|r| r == "CertificateMissing")
    };
    stage.wait_until("the missing certificate is reported", missing).await?;
    let issued = authority.issue(name, 1)?;
    let began = Instant::now();
    stage.apply(&secret(TENANT, "late", &issued.certificate, &issued.key))?;
    stage.wait_for(TENANT, "hp/late", "condition=Ready")?;
    println!("        Ready {:.1?} after the Secret", began.elapsed());
    let ca = authority.path.to_str().context("a path")?;
    Curl::https(&stage.gateways[0].listen_tls, name, "/", ca).fetch_body()?;
    stage.kubectl(&["delete", "-n", TENANT, "hp/late", "secret/late"])?;
    Ok(())
}
