//! The database of a directory as its one writer uses it: batches of steps in, each on disk as a
//! whole or not at all.

use std::path::{Path, PathBuf};

use aplomb_apimachinery::private_file;
use redb::{Builder, Database, ReadableTable, Table, TableDefinition, WriteTransaction};

use super::head::Head;
use super::{Error, Step, record};
use crate::storage::Change;

/// Objects by place: what is there now, as JSON.
pub(super) const OBJECTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("objects");
/// Writes by revision, as records.
pub(super) const CHANGES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("changes");
/// From which revision on each resource can be watched.
pub(super) const FLOORS: TableDefinition<'_, &str, u64> = TableDefinition::new("floors");
/// Numbers of the whole store.
pub(super) const NUMBERS: TableDefinition<'_, &str, i64> = TableDefinition::new("numbers");

pub(super) const REVISION: &str = "revision";
pub(super) const COMPACTED: &str = "compacted";
pub(super) const MARKED: &str = "marked";
pub(super) const NEXT_TICK: &str = "next-tick";

/// What is read again is in memory already; the cache only serves the tree's upper pages.
const CACHE: usize = 16 << 20;

/// The database, open for writing.
#[derive(Debug)]
pub(in crate::storage) struct File {
    path: PathBuf,
    /// Gone after a failed write: the library wants to be opened anew.
    database: Option<Database>,
    head: Head,
    durable: u64,
}

type Failure = Box<redb::Error>;

impl File {
    /// Opens the database of a directory that has been looked at.
    pub(super) fn open(path: &Path, head: Head, durable: u64) -> Result<Self, Error> {
        let database = open(path).map_err(|why| Error::damaged(path, &why))?;
        Ok(Self {
            path: path.to_owned(),
            database: Some(database),
            head,
            durable,
        })
    }

    /// An empty database, whole from the moment it has its name.
    pub(super) fn create(path: &Path) -> Result<(), Error> {
        let unfinished = path.with_extension("new");
        // The library would make it readable for everybody, and it holds Secrets.
        private_file::create(&unfinished).map_err(Error::at(&unfinished))?;
        let made = || -> Result<(), Failure> {
            let database = open(&unfinished)?;
            let transaction = database.begin_write().map_err(failure)?;
            drop(Tables::of(&transaction)?);
            transaction.commit().map_err(failure)
        };
        made().map_err(|why| Error::at(&unfinished)(std::io::Error::other(why.to_string())))?;
        std::fs::rename(&unfinished, path).map_err(Error::at(path))
    }

    /// Everything up to this revision is on disk.
    pub(in crate::storage) fn durable(&self) -> u64 {
        self.durable
    }

    /// Puts steps on disk. When it fails none of them is there, now or later.
    pub(in crate::storage) fn commit(&mut self, steps: &[Step]) -> Result<(), Failure> {
        let durable = self.durable;
        let database = match self.database.take() {
            Some(database) => database,
            None => reopen(&self.path, durable)?,
        };
        let revision = write(&database, steps)?;
        self.database = Some(database);
        self.durable = revision.unwrap_or(durable);
        if let Err(error) = self.head.note(self.durable) {
            tracing::warn!(%error, "The witness of the data directory could not be written");
        }
        Ok(())
    }
}

fn failure(error: impl Into<redb::Error>) -> Failure {
    Box::new(error.into())
}

fn open(path: &Path) -> Result<Database, Failure> {
    Builder::new().set_cache_size(CACHE).create(path).map_err(failure)
}

/// Opens the database after a failed write, and takes back what of it may have come through.
fn reopen(path: &Path, durable: u64) -> Result<Database, Failure> {
    let database = open(path)?;
    let transaction = database.begin_write().map_err(failure)?;
    Tables::of(&transaction)?.take_back(durable)?;
    transaction.commit().map_err(failure)?;
    Ok(database)
}

/// Writes all steps in one transaction; the newest revision among them, if there is one.
fn write(database: &Database, steps: &[Step]) -> Result<Option<u64>, Failure> {
    let transaction = database.begin_write().map_err(failure)?;
    let mut tables = Tables::of(&transaction)?;
    let mut newest = None;
    for step in steps {
        tables.apply(step)?;
        if let Step::Write { change, .. } = step {
            newest = Some(change.revision);
        }
    }
    if let Some(revision) = newest {
        tables.set(REVISION, number(revision))?;
    }
    drop(tables);
    transaction.commit().map_err(failure)?;
    Ok(newest)
}

/// The tables of one transaction.
struct Tables<'a> {
    objects: Table<'a, &'static str, &'static [u8]>,
    changes: Table<'a, u64, &'static [u8]>,
    floors: Table<'a, &'static str, u64>,
    numbers: Table<'a, &'static str, i64>,
}

impl<'a> Tables<'a> {
    fn of(transaction: &'a WriteTransaction) -> Result<Self, Failure> {
        Ok(Self {
            objects: transaction.open_table(OBJECTS).map_err(failure)?,
            changes: transaction.open_table(CHANGES).map_err(failure)?,
            floors: transaction.open_table(FLOORS).map_err(failure)?,
            numbers: transaction.open_table(NUMBERS).map_err(failure)?,
        })
    }

    fn apply(&mut self, step: &Step) -> Result<(), Failure> {
        match step {
            Step::Write { change, .. } => self.write(change)?,
            Step::Floor { resource, floor } => {
                let place = record::resource_place(resource);
                let floors = &mut self.floors;
                floors.insert(place.as_str(), floor).map_err(failure)?;
            }
            Step::Forget { resource } => {
                let place = record::resource_place(resource);
                self.floors.remove(place.as_str()).map_err(failure)?;
            }
            Step::Trim { revisions } => {
                for revision in revisions {
                    self.changes.remove(revision).map_err(failure)?;
                }
            }
            Step::Compacted(compaction) => {
                self.set(COMPACTED, number(compaction.compacted))?;
                self.set(MARKED, number(compaction.marked))?;
                self.set(NEXT_TICK, compaction.next_tick)?;
            }
        }
        Ok(())
    }

    fn write(&mut self, change: &Change) -> Result<(), Failure> {
        let place = record::place(&change.key);
        let old = match &change.new {
            Some(object) => {
                let bytes = serde_json::to_vec(object.as_ref()).expect("a JSON value is always written");
                self.objects.insert(place.as_str(), bytes.as_slice())
            }
            None => self.objects.remove(place.as_str()),
        };
        let old = old.map_err(failure)?.map(|old| old.value().to_vec());
        let record = record::encode(change.at, &place, old.as_deref());
        let changes = &mut self.changes;
        changes
            .insert(change.revision, record.as_slice())
            .map(drop)
            .map_err(failure)
    }

    /// Undoes every write after a revision.
    fn take_back(&mut self, durable: u64) -> Result<(), Failure> {
        loop {
            let last = self.changes.last().map_err(failure)?;
            let last = last.map(|(revision, bytes)| (revision.value(), bytes.value().to_vec()));
            let Some((revision, bytes)) = last.filter(|(revision, _)| *revision > durable) else {
                break;
            };
            if let Some(record) = record::decode(&bytes) {
                match record.old {
                    Some(old) => self.objects.insert(record.place, old),
                    None => self.objects.remove(record.place),
                }
                .map_err(failure)?;
            }
            self.changes.remove(revision).map_err(failure)?;
        }
        self.set(REVISION, number(durable))
    }

    fn set(&mut self, name: &str, value: i64) -> Result<(), Failure> {
        self.numbers.insert(name, value).map(drop).map_err(failure)
    }
}

fn number(revision: u64) -> i64 {
    i64::try_from(revision).unwrap_or(i64::MAX)
}
