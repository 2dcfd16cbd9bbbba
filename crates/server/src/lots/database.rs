//! The records of lots in an embedded database, by their ids.
//!
//! After an error of the disk, even if it was only full, the database accepts no more changes. So
//! it is closed then, and the next change opens it again. Its blocks are allocated in advance, so
//! that a lot can be released on a full disk.

use crate::lots::accounts::{Lot, LotError};
use redb::{Database, ReadableDatabase, ReadableTable, Table, TableDefinition};
use rustix::fs::{FallocateFlags, fallocate};
use std::path::{Path, PathBuf};

/// The records: id to a [`Lot`] as JSON. A new format gets a new name.
const LOTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("lots-1");
/// The space allocated in advance, in bytes: enough for ten thousand lots.
const MIN_BYTES: u64 = 8 << 20;

/// The database of lots.
#[derive(Debug)]
pub(crate) struct LotDatabase {
    path: PathBuf,
    /// None after it has failed.
    database: Option<Database>,
}

impl LotDatabase {
    pub(crate) fn open(path: &Path) -> Result<Self, LotError> {
        let mut database = Self { path: path.to_owned(), database: None };
        database.change(|_| Ok(()))?;
        Ok(database)
    }

    /// Reads all lots. An unreadable record is an error: skipping it might promise its space twice.
    pub(crate) fn all(&mut self) -> Result<Vec<Lot>, LotError> {
        let database = self.database.as_ref().ok_or_else(|| failed("it is closed"))?;
        let table = database.begin_read().map_err(redb_error)?;
        let table = table.open_table(LOTS).map_err(redb_error)?;
        let mut lots = Vec::new();
        for record in table.iter().map_err(redb_error)? {
            let (_, record) = record.map_err(redb_error)?;
            lots.push(serde_json::from_slice(record.value()).map_err(failed)?);
        }
        Ok(lots)
    }

    /// Stores a lot durably.
    pub(crate) fn put(&mut self, lot: &Lot) -> Result<(), LotError> {
        let record = serde_json::to_vec(lot).map_err(failed)?;
        self.change(|lots| lots.insert(lot.id.as_str(), record.as_slice()).map(drop))
    }

    /// Removes a lot, if it exists.
    pub(crate) fn remove(&mut self, id: &str) -> Result<(), LotError> {
        self.change(|lots| lots.remove(id).map(drop))
    }

    fn change(
        &mut self,
        work: impl FnOnce(&mut Table<'_, &'static str, &'static [u8]>) -> redb::Result<()>,
    ) -> Result<(), LotError> {
        let database = match self.database.take() {
            Some(database) => database,
            None => open_file(&self.path)?,
        };
        let transaction = database.begin_write().map_err(redb_error)?;
        work(&mut transaction.open_table(LOTS).map_err(redb_error)?).map_err(redb_error)?;
        transaction.commit().map_err(redb_error)?;
        self.database = Some(database);
        Ok(())
    }
}

fn open_file(path: &Path) -> Result<Database, LotError> {
    let database = Database::create(path).map_err(redb_error)?;
    let file = std::fs::File::options().write(true).open(path)?;
    // Where this is not supported, changes may fail on a full disk.
    let _ = fallocate(&file, FallocateFlags::KEEP_SIZE, 0, MIN_BYTES.max(file.metadata()?.len()));
    Ok(database)
}

/// The error of the disk, or else that of the database.
fn redb_error(error: impl Into<redb::Error>) -> LotError {
    match error.into() {
        redb::Error::Io(error) => error.into(),
        error => failed(error),
    }
}

fn failed(error: impl std::fmt::Display) -> LotError {
    LotError::Failed(error.to_string())
}
