//! rathole, encrypted and plain, and bore, each with its server and its client as processes.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::Subject;

/// A process that ends with the bench.
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self(child.spawn().with_context(|| format!("{command:?}"))?))
    }

    /// Its output goes to a file.
    pub(crate) fn start_with_output(command: &mut Command, to: &Path) -> Result<Self> {
        let child = command
            .stdin(Stdio::null())
            .stdout(fs::File::create(to)?)
            .stderr(Stdio::null());
        Ok(Self(child.spawn().with_context(|| format!("{command:?}"))?))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Waits until the port is open.
pub(crate) fn wait_until_listening(address: &str) -> Result<()> {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(30) {
        if TcpStream::connect(address).is_ok() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(50));
    }
    bail!("no listener at {address}")
}

pub(crate) fn start(dir: &Path, origin: u16) -> Result<(Vec<Subject>, Vec<Running>)> {
    let programs = std::env::var_os("APLOMB_PEERS").context("APLOMB_PEERS is not set; use make bench-tunnel")?;
    let programs = PathBuf::from(programs);
    let (mut ways, mut running) = (Vec::new(), Vec::new());
    for (name, transport) in [("rathole, encrypted", NOISE_CONFIG), ("rathole, plain", TCP_CONFIG)] {
        let port = rathole(dir, &programs, origin, transport, &mut running)?;
        ways.push(Subject::new(name, format!("127.0.0.1:{port}")));
    }
    let port = bore(&programs, origin, &mut running)?;
    ways.push(Subject::new("bore, plain", format!("127.0.0.1:{port}")));
    for way in &ways {
        wait_until_listening(&way.address)?;
    }
    Ok((ways, running))
}

const NOISE_CONFIG: &str = "[{side}.transport]\ntype = \"noise\"\n[{side}.transport.noise]\n";
const TCP_CONFIG: &str = "[{side}.transport]\ntype = \"tcp\"\n";

fn rathole(dir: &Path, programs: &Path, origin: u16, transport: &str, running: &mut Vec<Running>) -> Result<u16> {
    let (control, port) = (free_port()?, free_port()?);
    let server = format!(
        "[server]\nbind_addr = \"127.0.0.1:{control}\"\ndefault_token = \"bench\"\n{}\
         [server.services.web]\nbind_addr = \"127.0.0.1:{port}\"\nnodelay = true\n",
        transport.replace("{side}", "server")
    );
    let client = format!(
        "[client]\nremote_addr = \"127.0.0.1:{control}\"\ndefault_token = \"bench\"\n{}\
         [client.services.web]\nlocal_addr = \"127.0.0.1:{origin}\"\nnodelay = true\n",
        transport.replace("{side}", "client")
    );
    for (side, text) in [("server", server), ("client", client)] {
        let path = dir.join(format!("rathole-{control}-{side}.toml"));
        fs::write(&path, text)?;
        let mut command = Command::new(programs.join("rathole"));
        running.push(Running::start(command.arg(format!("--{side}")).arg(path))?);
        wait_until_listening(&format!("127.0.0.1:{control}"))?;
    }
    Ok(port)
}

/// Its control port is always 7835.
fn bore(programs: &Path, origin: u16, running: &mut Vec<Running>) -> Result<u16> {
    let port = free_port()?;
    let mut server = Command::new(programs.join("bore"));
    running.push(Running::start(server.args(["server", "--bind-addr", "127.0.0.1"]))?);
    wait_until_listening("127.0.0.1:7835")?;
    let mut client = Command::new(programs.join("bore"));
    client.args([
        "local",
        &origin.to_string(),
        "--local-host",
        "127.0.0.1",
        "--to",
        "127.0.0.1",
    ]);
    running.push(Running::start(client.args(["--port", &port.to_string()]))?);
    Ok(port)
}
