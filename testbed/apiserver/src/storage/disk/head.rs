//! A witness beside the database: the newest revision that was ever on disk.
//!
//! A database that was damaged can fall back to an older state and look whole. It then knows less
//! than the witness, and is refused instead of forgetting quietly. The witness is written in turns
//! into two places, so that a torn write leaves the one before.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use sha2::{Digest, Sha256};

const PLACE: usize = 64;
const NUMBER: usize = 8;

#[derive(Debug)]
pub(super) struct Head {
    file: File,
    turn: u64,
}

impl Head {
    /// The witness of a directory, and the revision it has seen; 0 when it is new, `None` when
    /// neither of its places can be read.
    pub(super) fn open(path: &Path) -> io::Result<(Self, Option<u64>)> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        let seen = if file.metadata()?.len() == 0 {
            Some(0)
        } else {
            read(&file)
        };
        Ok((Self { file, turn: 0 }, seen))
    }

    /// Notes a revision. It is not forced to the disk: a witness that is a little late after a
    /// power cut sees a little less, and nothing depends on it otherwise.
    pub(super) fn note(&mut self, revision: u64) -> io::Result<()> {
        self.turn += 1;
        let place = (self.turn % 2) * PLACE as u64;
        self.file.write_all_at(&encode(revision), place)
    }
}

fn read(file: &File) -> Option<u64> {
    let one = |place: u64| {
        let mut bytes = [0; PLACE];
        file.read_exact_at(&mut bytes, place * PLACE as u64).ok()?;
        let number = bytes.first_chunk::<NUMBER>()?;
        let revision = u64::from_le_bytes(*number);
        (encode(revision) == bytes).then_some(revision)
    };
    one(0).max(one(1))
}

fn encode(revision: u64) -> [u8; PLACE] {
    let mut bytes = [0; PLACE];
    let number = revision.to_le_bytes();
    bytes[..NUMBER].copy_from_slice(&number);
    let digest = Sha256::digest(number);
    bytes[NUMBER..NUMBER + digest.len()].copy_from_slice(&digest);
    bytes
}
