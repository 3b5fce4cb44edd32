//! Files with secrets: nobody ever sees half of one, or reads one without being its owner.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Makes an empty file, in place of what an interrupted attempt left there.
pub fn create(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Only a new file has the mode it is asked for, and is nobody else's link.
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Puts a text in place of what is at `path`, by way of `temporary` in the same directory.
pub fn replace(path: &Path, temporary: &Path, text: &str) -> io::Result<()> {
    let written = create(temporary)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(temporary, path));
    if written.is_err()
        && let Err(error) = fs::remove_file(temporary)
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
    fn a_file_is_private_and_replaced_whole_whatever_was_left_behind() {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, temporary) = (directory.path().join("it"), directory.path().join("it.new"));
        fs::write(&temporary, "half of").expect("left behind");
        for text in ["one", "two"] {
            replace(&path, &temporary, text).expect("written");
            assert_eq!(fs::read_to_string(&path).expect("read"), text);
        }
        let mode = fs::metadata(&path).expect("metadata").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(&directory).expect("listed").count(), 1);
    }
}
