//! The kubeconfig of a box: where it is, whom to trust and the token to show.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use base64::Engine as _;
use serde_json::json;

/// The text of a kubeconfig.
#[must_use]
pub(super) fn render(address: SocketAddr, ca_pem: &str, token: &str) -> String {
    let ca = base64::engine::general_purpose::STANDARD.encode(ca_pem);
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "box",
            "cluster": { "server": format!("https://{address}"), "certificate-authority-data": ca },
        }],
        "users": [{ "name": "admin", "user": { "token": token } }],
        "contexts": [{
            "name": "box",
            "context": { "cluster": "box", "user": "admin", "namespace": "default" },
        }],
        "current-context": "box",
    });
    // JSON is YAML, and needs no quoting rules.
    let mut text = serde_json::to_string_pretty(&config).expect("a JSON value is always written");
    text.push('\n');
    text
}

/// Writes a file so that nobody ever sees half of it or reads it without being its owner.
///
/// # Errors
/// The file system's.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut temporary = name.to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(temporary);
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())
                .and_then(|()| file.sync_all())
        })
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err()
        && let Err(error) = fs::remove_file(&temporary)
    {
        tracing::debug!(%error, "Temporary file could not be removed");
    }
    written
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_file_is_private_and_replaced_whole() {
        let directory = std::env::temp_dir().join(format!("kubeconfig-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        let path = directory.join("config");
        for text in ["one", "two"] {
            write(&path, text).expect("written");
            assert_eq!(fs::read_to_string(&path).expect("read"), text);
        }
        let mode = fs::metadata(&path).expect("metadata").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(&directory).expect("listed").count(), 1);
        fs::remove_dir_all(&directory).expect("removed");
    }
}
