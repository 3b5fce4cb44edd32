//! The secret key of an agent, and its file. The key is never printed.

use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use iroh::SecretKey;

use crate::error::{Error, Result};

/// Larger than any key, so that a file of another kind is not read completely.
const MAX_FILE_BYTES: u64 = 1024;

/// A secret key. While it is held, other processes on this machine cannot use the same file.
pub struct AgentKey {
    secret: SecretKey,
    /// The file lock is released with the process, however that ends.
    _file: Option<File>,
}

impl AgentKey {
    /// A key without a file.
    #[must_use]
    pub fn new(secret: SecretKey) -> Self {
        Self { secret, _file: None }
    }

    /// The key in `file`, which is created with a new key if it does not exist.
    ///
    /// # Errors
    /// The file cannot be created or read, is readable by others, does not contain a key, or is used by
    /// another process.
    pub fn open(file: &Path) -> Result<Self> {
        let problem = |problem: String| Error::Key {
            file: file.to_owned(),
            problem,
        };
        let opened = match File::open(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create(file).map_err(|error| problem(format!("cannot be created: {error}")))?;
                File::open(file)
            }
            opened => opened,
        };
        let opened = opened.map_err(|error| problem(format!("cannot be read: {error}")))?;
        let secret = read(file, &opened).map_err(problem)?;
        lock(&opened).map_err(problem)?;
        Ok(Self {
            secret,
            _file: Some(opened),
        })
    }

    /// The secret, for the endpoint.
    #[must_use]
    pub fn secret(&self) -> &SecretKey {
        &self.secret
    }

    /// The public key in hex: the endpoint id.
    #[must_use]
    pub fn id(&self) -> String {
        self.secret.public().to_string()
    }
}

impl fmt::Debug for AgentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("id", &self.id()).finish_non_exhaustive()
    }
}

/// The default key file of a connector: `$XDG_STATE_HOME/aplomb`, or `~/.local/state/aplomb`.
///
/// # Errors
/// Neither directory is known.
pub fn default_file(connector: &str) -> Result<PathBuf> {
    let absolute = |name: &str| {
        let path = PathBuf::from(std::env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let state = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
    let state = state.ok_or_else(|| {
        Error::InvalidSetting("cannot store the key: the home directory is unknown; set --key-file FILE".to_owned())
    })?;
    Ok(state.join("aplomb").join(format!("{connector}.key")))
}

fn read(name: &Path, mut file: &File) -> Result<SecretKey, String> {
    let meta = file.metadata().map_err(|error| error.to_string())?;
    if !meta.is_file() {
        return Err("is not a file; choose another one with --key-file".to_owned());
    }
    let mode = meta.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(format!(
            "has mode {mode:04o}, so other users may have read the key: run `chmod 600 {0}` if you \
             trust them, or delete it to get a new one",
            name.display()
        ));
    }
    let mut text = String::new();
    let read = Read::by_ref(&mut file).take(MAX_FILE_BYTES).read_to_string(&mut text);
    let no_key =
        || "does not contain a key (64 hexadecimal digits): delete it to get a new one, or restore it".to_owned();
    read.map_err(|_| no_key())?;
    decode(text.trim()).ok_or_else(no_key)
}

fn lock(file: &File) -> Result<(), String> {
    match file.try_lock() {
        // Some file systems do not support locks; the agent works without.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(
            "is used by another agent on this machine: stop that one, or give this one its own \
             --name or --key-file"
                .to_owned(),
        ),
    }
}

/// Creates the file atomically: it is written under a temporary name and then linked, which fails if another
/// process was first. Both processes read the same key afterwards.
fn create(file: &Path) -> io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let mut draft = file.as_os_str().to_owned();
    draft.push(format!(".{}.new", std::process::id()));
    let draft = PathBuf::from(draft);
    // Left by a process with the same id that crashed.
    drop(std::fs::remove_file(&draft));
    let made = write(&draft).and_then(|()| match std::fs::hard_link(&draft, file) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    });
    drop(std::fs::remove_file(&draft));
    made
}

fn write(draft: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut new = options.write(true).create_new(true).mode(0o600).open(draft)?;
    writeln!(new, "{}", encode(&SecretKey::generate()))?;
    new.sync_all()
}

fn encode(key: &SecretKey) -> String {
    key.to_bytes().iter().map(|b| format!("{b:02x}")).collect()
}

fn decode(text: &str) -> Option<SecretKey> {
    if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;

    use super::*;

    fn open_error(file: &Path) -> String {
        AgentKey::open(file).expect_err("an unusable file").to_string()
    }

    #[test]
    fn a_key_is_made_once_and_for_its_owner_alone() {
        let folder = tempfile::tempdir().expect("a directory");
        let file = folder.path().join("state/aplomb/web.key");
        let first = AgentKey::open(&file).expect("made").id();
        let mode = std::fs::metadata(&file).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(AgentKey::open(&file).expect("read").id(), first);
        let beside = std::fs::read_dir(file.parent().expect("a folder")).expect("readable");
        assert_eq!(beside.count(), 1, "the temporary file was removed");
    }

    #[test]
    fn a_key_that_others_may_read_is_refused_with_the_fix() {
        let folder = tempfile::tempdir().expect("a directory");
        let file = folder.path().join("web.key");
        drop(AgentKey::open(&file).expect("made"));
        for mode in [0o640, 0o604, 0o660] {
            std::fs::set_permissions(&file, Permissions::from_mode(mode)).expect("ours");
            let said = open_error(&file);
            assert!(said.contains("chmod 600") && said.contains("web.key"), "{said}");
        }
    }

    #[test]
    fn a_file_without_a_key_is_refused_and_not_quoted() {
        let folder = tempfile::tempdir().expect("a directory");
        let file = folder.path().join("web.key");
        for text in ["", "hunter2", &"g".repeat(64), &"0".repeat(65)] {
            std::fs::write(&file, text).expect("written");
            std::fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("ours");
            let said = open_error(&file);
            assert!(said.contains("delete it to get a new one"), "{said}");
            assert!(text.is_empty() || !said.contains(text), "{said}");
        }
    }

    #[test]
    fn a_key_in_use_is_refused() {
        let folder = tempfile::tempdir().expect("a directory");
        let file = folder.path().join("web.key");
        let held = AgentKey::open(&file).expect("made");
        assert!(open_error(&file).contains("another agent"));
        drop(held);
        AgentKey::open(&file).expect("the lock was released");
    }

    #[test]
    fn debug_output_hides_the_key() {
        let key = AgentKey::new(SecretKey::generate());
        assert!(!format!("{key:?}").contains(&encode(key.secret())));
    }
}
