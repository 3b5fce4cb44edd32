//! Opening a data directory: whose it is, that nobody else uses it, and that it is whole.

use std::fs::{self, File as Plain, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::head::Head;
use super::{Error, FORMAT, File, Loaded, Secrets, load, secrets};

const LOCK: &str = "lock";
const MARKER: &str = "format";
const STATE: &str = "state.redb";
const HEAD: &str = "head";
const SECRETS: &str = "secrets";
/// The first word of the marker.
const NAME: &str = "aplomb-box-data";

/// A data directory that is this process's own, checked and read.
#[derive(Debug)]
pub struct DataDir {
    file: File,
    loaded: Loaded,
    lock: Lock,
    secrets: Secrets,
}

/// Keeps other boxes out until it is dropped, or its process ends however it ends.
#[derive(Debug)]
pub(in crate::storage) struct Lock {
    _file: Plain,
}

impl DataDir {
    /// Opens a directory, or makes one where there is none.
    ///
    /// # Errors
    /// It is somebody else's, in use, damaged, or of a newer format. It is left as it is then.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        make(path)?;
        // Before the lock, which is a file in it: what is not ours is not touched.
        let marked = read_marker(path)?;
        let lock = lock(path)?;
        if !marked && !read_marker(path)? {
            let marker = path.join(MARKER);
            secrets::write(&marker, &format!("{NAME} {FORMAT}\n")).map_err(Error::at(&marker))?;
        }
        let state = path.join(STATE);
        let (head, seen) = head(path)?;
        if !state.try_exists().map_err(Error::at(&state))? {
            if seen > 0 {
                return Err(Error::damaged(&state, &"it is missing"));
            }
            File::create(&state)?;
            sync(path)?;
        }
        let loaded = load::load(&state)?;
        if loaded.revision < seen {
            let why = format!("it ends at revision {}, and {seen} was written", loaded.revision);
            return Err(Error::damaged(&state, &why));
        }
        let kept = path.join(SECRETS);
        Ok(Self {
            file: File::open(&state, head, loaded.revision)?,
            loaded,
            lock,
            secrets: Secrets::open(kept.clone()).map_err(Error::at(&kept))?,
        })
    }

    pub(in crate::storage) fn into_parts(self) -> (File, Lock, Loaded) {
        (self.file, self.lock, self.loaded)
    }

    /// The keys and tokens kept in it.
    #[must_use]
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }
}

fn make(path: &Path) -> Result<(), Error> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(Error::at(path))
}

/// Whether the directory is a box's; one without a marker must be empty.
fn read_marker(path: &Path) -> Result<bool, Error> {
    let marker = path.join(MARKER);
    match fs::read_to_string(&marker) {
        Ok(text) => match text.strip_prefix(NAME).map(|it| it.trim().parse::<u32>()) {
            Some(Ok(FORMAT)) => Ok(true),
            Some(Ok(found)) => Err(Error::Newer {
                path: path.to_owned(),
                found,
                known: FORMAT,
            }),
            _ => Err(Error::damaged(&marker, &"it names no format")),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            for entry in fs::read_dir(path).map_err(Error::at(path))? {
                let name = entry.map_err(Error::at(path))?.file_name();
                // What a box that was stopped at once, or a file system, leaves.
                if ![LOCK, "format.new", "lost+found"].iter().any(|own| name == *own) {
                    return Err(Error::Foreign { path: path.to_owned() });
                }
            }
            Ok(false)
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(Error::damaged(&marker, &"it is not text")),
        Err(error) => Err(Error::at(&marker)(error)),
    }
}

fn lock(path: &Path) -> Result<Lock, Error> {
    let name = path.join(LOCK);
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&name)
        .map_err(Error::at(&name))?;
    match file.try_lock() {
        Ok(()) => Ok(Lock { _file: file }),
        Err(TryLockError::WouldBlock) => Err(Error::Locked { path: path.to_owned() }),
        Err(TryLockError::Error(error)) => Err(Error::at(&name)(error)),
    }
}

fn head(path: &Path) -> Result<(Head, u64), Error> {
    let name: PathBuf = path.join(HEAD);
    let (head, seen) = Head::open(&name).map_err(Error::at(&name))?;
    let seen = seen.ok_or_else(|| Error::damaged(&name, &"none of its entries can be read"))?;
    Ok((head, seen))
}

/// A new name is only kept once its directory is on disk.
fn sync(path: &Path) -> Result<(), Error> {
    Plain::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(Error::at(path))
}
