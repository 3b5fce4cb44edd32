//! Why a directory cannot be used. Each message is one line that names the file and what to do.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

/// What is wrong with a data directory.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("{} is in use by another box; stop that one, or name another directory", path.display())]
    Locked { path: PathBuf },
    #[error("{} holds something that is not a box's; name an empty or a new directory", path.display())]
    Foreign { path: PathBuf },
    #[error(
        "{} has format {found}, this program reads {known}; use the newer version that wrote it, or name another \
         directory",
        path.display()
    )]
    Newer { path: PathBuf, found: u32, known: u32 },
    #[error("{} is damaged ({why}) and was left as it is; restore it from a copy, or name another directory", path.display())]
    Damaged { path: PathBuf, why: String },
    #[error("{}: {source}; check the directory, its owner and the space on its disk", path.display())]
    File { path: PathBuf, source: io::Error },
}

impl Error {
    pub(super) fn damaged(path: &Path, why: &dyn Display) -> Self {
        // Some libraries say it on many lines.
        let why = why.to_string();
        let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
        Self::Damaged {
            path: path.to_owned(),
            why,
        }
    }

    /// Adds the path to an error of the file system.
    pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}
