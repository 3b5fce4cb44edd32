//! The state of a directory, read and checked from end to end before the file is opened for writing.
//!
//! Opening a database after a crash repairs it, which writes. So a copy in memory is opened first:
//! the file itself is only touched when the copy has turned out to be whole.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use aplomb_apimachinery::encoded_object::EncodedViews;
use aplomb_apimachinery::status::GroupResource;
use redb::backends::InMemoryBackend;
use redb::{Builder, Database, ReadableDatabase, ReadableTable, StorageBackend};
use serde_json::Value;

use super::{Compaction, Error, file, record};
use crate::storage::{Change, Key};

/// What every database of this library begins with.
const MAGIC: &[u8] = b"redb";

/// Everything a store needs to go on where it ended.
#[derive(Debug, Default)]
pub(in crate::storage) struct Loaded {
    /// The revision of the last write; 0 if there was none yet.
    pub(in crate::storage) revision: u64,
    pub(in crate::storage) compaction: Compaction,
    pub(in crate::storage) floors: BTreeMap<GroupResource, u64>,
    pub(in crate::storage) objects: Vec<(Key, Arc<Value>)>,
    /// Oldest first.
    pub(in crate::storage) changes: Vec<Arc<Change>>,
}

/// Reads a database without touching its file.
pub(super) fn load(path: &Path) -> Result<Loaded, Error> {
    let bytes = std::fs::read(path).map_err(Error::at(path))?;
    if !bytes.starts_with(MAGIC) {
        return Err(Error::damaged(path, &"it is no database of a box"));
    }
    // The library asserts what its own writer would never have written.
    let read = catch_unwind(AssertUnwindSafe(|| read(&bytes)));
    match read {
        Ok(read) => read.map_err(|why| Error::damaged(path, &why)),
        Err(_) => Err(Error::damaged(path, &"its pages contradict each other")),
    }
}

type Failure = Box<dyn std::error::Error>;

fn read(bytes: &[u8]) -> Result<Loaded, Failure> {
    let copy = InMemoryBackend::new();
    copy.set_len(bytes.len() as u64)?;
    copy.write(0, bytes)?;
    let mut database = Builder::new().create_with_backend(copy)?;
    database.check_integrity()?;
    let mut loaded = numbers(&database)?;
    loaded.floors = floors(&database)?;
    loaded.objects = objects(&database)?;
    loaded.changes = changes(&database, &loaded.objects)?;
    if loaded.changes.last().map_or(0, |change| change.revision) > loaded.revision {
        return Err("it holds writes after its last revision".into());
    }
    Ok(loaded)
}

fn numbers(database: &Database) -> Result<Loaded, Failure> {
    let table = database.begin_read()?.open_table(file::NUMBERS)?;
    let number = |name: &str| -> Result<i64, Failure> { Ok(table.get(name)?.map_or(0, |number| number.value())) };
    let revision = |name: &str| -> Result<u64, Failure> { Ok(u64::try_from(number(name)?)?) };
    Ok(Loaded {
        revision: revision(file::REVISION)?,
        compaction: Compaction {
            compacted: revision(file::COMPACTED)?,
            marked: revision(file::MARKED)?,
            next_tick: number(file::NEXT_TICK)?,
        },
        ..Loaded::default()
    })
}

fn floors(database: &Database) -> Result<BTreeMap<GroupResource, u64>, Failure> {
    let table = database.begin_read()?.open_table(file::FLOORS)?;
    let mut floors = BTreeMap::new();
    for entry in table.iter()? {
        let (place, floor) = entry?;
        let resource = record::resource(place.value()).ok_or("a floor of no resource")?;
        floors.insert(resource, floor.value());
    }
    Ok(floors)
}

fn objects(database: &Database) -> Result<Vec<(Key, Arc<Value>)>, Failure> {
    let table = database.begin_read()?.open_table(file::OBJECTS)?;
    let mut objects = Vec::new();
    for entry in table.iter()? {
        let (place, bytes) = entry?;
        let key = record::key(place.value()).ok_or("an object of no resource")?;
        objects.push((key, Arc::new(serde_json::from_slice(bytes.value())?)));
    }
    Ok(objects)
}

/// The recent writes, newest first on the way: what each wrote is what stood there after it.
fn changes(database: &Database, objects: &[(Key, Arc<Value>)]) -> Result<Vec<Arc<Change>>, Failure> {
    let mut after: BTreeMap<String, Arc<Value>> = objects
        .iter()
        .map(|(key, object)| (record::place(key), object.clone()))
        .collect();
    let table = database.begin_read()?.open_table(file::CHANGES)?;
    let mut changes = Vec::new();
    for entry in table.iter()?.rev() {
        let (revision, bytes) = entry?;
        let record = record::decode(bytes.value()).ok_or("a write that cannot be read")?;
        let old = match record.old {
            Some(old) => Some(Arc::new(serde_json::from_slice::<Value>(old)?)),
            None => None,
        };
        let new = match &old {
            Some(old) => after.insert(record.place.to_owned(), old.clone()),
            None => after.remove(record.place),
        };
        changes.push(Arc::new(Change {
            revision: revision.value(),
            at: record.at,
            key: record::key(record.place).ok_or("a write of no resource")?,
            old,
            new,
            views: EncodedViews::default(),
        }));
    }
    changes.reverse();
    Ok(changes)
}
