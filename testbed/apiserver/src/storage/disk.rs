//! The directory a box keeps its state in: who may use it, what it holds, and what is wrong with it.
//!
//! A directory is looked at before anything in it is touched. What is not a box's, is newer than
//! this program, or is damaged is refused and stays as it is, byte for byte.

mod directory;
mod error;
mod file;
mod head;
mod load;
mod record;
mod secrets;

pub use directory::DataDir;
pub use error::Error;
pub use secrets::Secrets;

pub(super) use directory::Lock;
pub(super) use file::File;
pub(super) use load::Loaded;

/// The layout of the directory and of the records in it.
const FORMAT: u32 = 1;

/// One thing that happened in memory and has to reach the disk, in order.
#[derive(Debug)]
pub(super) enum Step {
    /// An object was written; readers of its resource wait for the bell.
    Write {
        change: std::sync::Arc<super::Change>,
        wake: std::sync::Arc<tokio::sync::Notify>,
    },
    /// Watches of a resource may start after this revision.
    Floor {
        resource: aplomb_apimachinery::status::GroupResource,
        floor: u64,
    },
    /// A resource is no longer there.
    Forget {
        resource: aplomb_apimachinery::status::GroupResource,
    },
    /// Nobody can ask for these writes any more.
    Trim { revisions: Vec<u64> },
    /// The past before this revision is closed to exact reads.
    Compacted(Compaction),
}

/// How far the past has been closed, and when the next step is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Compaction {
    pub(super) compacted: u64,
    pub(super) marked: u64,
    /// Milliseconds since 1970.
    pub(super) next_tick: i64,
}

#[cfg(test)]
mod tests;
