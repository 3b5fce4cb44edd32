//! The kubeconfig of a box: where it is, whom to trust and the token to show.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use base64::Engine as _;
use serde_json::{Value, json};

use aplomb_apimachinery::private_file;

/// What tells a box's kubeconfig from a person's.
const CLUSTER: &str = "aplomb-box";

/// The text of a kubeconfig.
#[must_use]
pub(crate) fn render(address: SocketAddr, ca_pem: &str, token: &str) -> String {
    let ca = base64::engine::general_purpose::STANDARD.encode(ca_pem);
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": CLUSTER,
            "cluster": { "server": format!("https://{address}"), "certificate-authority-data": ca },
        }],
        "users": [{ "name": "admin", "user": { "token": token } }],
        "contexts": [{
            "name": "box",
            "context": { "cluster": CLUSTER, "user": "admin", "namespace": "default" },
        }],
        "current-context": "box",
    });
    // JSON is YAML, and needs no quoting rules.
    let mut text = serde_json::to_string_pretty(&config).expect("a JSON value is always written");
    text.push('\n');
    text
}

/// Whether writing to `path` loses nothing: there is no file, an empty one, or one of a box.
///
/// A person's own kubeconfig holds credentials that cannot be had again.
#[must_use]
pub(crate) fn may_replace(path: &Path) -> bool {
    match fs::read(path) {
        Ok(text) if text.is_empty() => true,
        Ok(text) => serde_json::from_slice::<Value>(&text).is_ok_and(|config| config["clusters"][0]["name"] == CLUSTER),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Writes a kubeconfig in place of the one before.
///
/// # Errors
/// The file system's.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    // Several boxes may be told to write to one place at once.
    let mut temporary = name.to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    private_file::replace(path, &path.with_file_name(temporary), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_of_somebody_else_is_not_replaced() {
        let path = std::env::temp_dir().join(format!("foreign-{}", std::process::id()));
        assert!(may_replace(&path), "no file yet");
        fs::write(&path, "").expect("written");
        assert!(may_replace(&path), "an empty file");
        fs::write(&path, "apiVersion: v1\nkind: Config\nusers: []\n").expect("written");
        assert!(!may_replace(&path), "a person's kubeconfig");
        let own = render(SocketAddr::from(([127, 0, 0, 1], 1)), "ca", "token");
        fs::write(&path, own).expect("written");
        assert!(may_replace(&path), "one of our own");
        fs::remove_file(&path).expect("removed");
    }
}
