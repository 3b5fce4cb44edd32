//! What a cluster must not show and must not lose: keys and tokens, each in a file only its owner
//! can read. Without a directory they live as long as the process.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use aplomb_apimachinery::private_file;

/// The secrets of one box. Cheap to clone; clones share them. Their values are never shown.
#[derive(Clone, Default)]
pub struct Secrets {
    directory: Option<PathBuf>,
    known: Arc<Mutex<BTreeMap<&'static str, String>>>,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secrets")
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

impl Secrets {
    pub(super) fn open(directory: PathBuf) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        Ok(Self {
            directory: Some(directory),
            ..Self::default()
        })
    }

    /// The secret of a name, made the first time anybody asks for it.
    ///
    /// # Errors
    /// The file system's, or that of `make`.
    pub fn get_or_make<E: From<io::Error>>(
        &self,
        name: &'static str,
        make: impl FnOnce() -> Result<String, E>,
    ) -> Result<String, E> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(secret) = known.get(name) {
            return Ok(secret.clone());
        }
        let file = self.directory.as_ref().map(|it| it.join(name));
        let secret = match file.as_deref().map(read).transpose()?.flatten() {
            Some(kept) => kept,
            None => {
                let made = make()?;
                if let Some(file) = &file {
                    write(file, &made)?;
                }
                made
            }
        };
        known.insert(name, secret.clone());
        Ok(secret)
    }

    /// Keeps a value under a name in place of the one before.
    ///
    /// # Errors
    /// The file system's.
    pub fn keep(&self, name: &'static str, value: &str) -> io::Result<()> {
        if let Some(directory) = &self.directory {
            write(&directory.join(name), value)?;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(name, value.to_owned());
        Ok(())
    }

    /// The secret of a name, if there is one.
    ///
    /// # Errors
    /// The file system's.
    pub fn get(&self, name: &'static str) -> io::Result<Option<String>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(secret) = known.get(name) {
            return Ok(Some(secret.clone()));
        }
        let file = self.directory.as_ref().map(|it| it.join(name));
        Ok(file.as_deref().map(read).transpose()?.flatten())
    }
}

fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io::Error::new(
            error.kind(),
            format!("read {}: {error}", path.display()),
        )),
    }
}

pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    private_file::replace(path, &path.with_extension("new"), text)
        .map_err(|error| io::Error::new(error.kind(), format!("write {}: {error}", path.display())))
}
