//! What has been agreed, in an embedded database: a record for each lot, by its id.
//!
//! The database takes no more after the disk has failed it once, be it only that it was full. So it is closed then, and opened
//! anew by who needs it next. Its blocks are taken from the disk in advance, so that a lot can be released on a full one.

use crate::lots::accounts::{Lot, LotError};
use redb::{Database, ReadableDatabase, ReadableTable, Table, TableDefinition};
use rustix::fs::{FallocateFlags, fallocate};
use std::path::{Path, PathBuf};

/// By id: a [`Lot`] as JSON. A change of the format gets another name.
const LOTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("lots-1");
/// Blocks that are taken in advance, in bytes: enough for ten thousand lots.
const MIN_BYTES: u64 = 8 << 20;

/// See the module above.
#[derive(Debug)]
pub(crate) struct LotDatabase {
    path: PathBuf,
    /// None after it has failed.
    database: Option<Database>,
}

impl LotDatabase {
    pub(crate) fn open(path: &Path) -> Result<Self, LotError> {
        let mut book = Self { path: path.to_owned(), database: None };
        book.change(|_| Ok(()))?;
        Ok(book)
    }

    /// All lots. A record that cannot be read fails: to forget it might promise its space twice.
    pub(crate) fn all(&mut self) -> Result<Vec<Lot>, LotError> {
        let database = self.database.as_ref().ok_or_else(|| failed("it is closed"))?;
        let table = database.begin_read().map_err(told)?.open_table(LOTS).map_err(told)?;
        let mut lots = Vec::new();
        for record in table.iter().map_err(told)? {
            let (_, record) = record.map_err(told)?;
            lots.push(serde_json::from_slice(record.value()).map_err(failed)?);
        }
        Ok(lots)
    }

    /// Keeps a lot; on return it is on the disk.
    pub(crate) fn put(&mut self, lot: &Lot) -> Result<(), LotError> {
        let record = serde_json::to_vec(lot).map_err(failed)?;
        self.change(|lots| lots.insert(lot.id.as_str(), record.as_slice()).map(drop))
    }

    /// Forgets a lot, if there is such a one.
    pub(crate) fn remove(&mut self, id: &str) -> Result<(), LotError> {
        self.change(|lots| lots.remove(id).map(drop))
    }

    fn change(
        &mut self,
        work: impl FnOnce(&mut Table<'_, &'static str, &'static [u8]>) -> redb::Result<()>,
    ) -> Result<(), LotError> {
        let database = match self.database.take() {
            Some(database) => database,
            None => opened(&self.path)?,
        };
        let begun = database.begin_write().map_err(told)?;
        work(&mut begun.open_table(LOTS).map_err(told)?).map_err(told)?;
        begun.commit().map_err(told)?;
        self.database = Some(database);
        Ok(())
    }
}

fn opened(path: &Path) -> Result<Database, LotError> {
    let database = Database::create(path).map_err(told)?;
    let file = std::fs::File::options().write(true).open(path)?;
    // Where that cannot be had, changes may fail on a full disk.
    let _ = fallocate(&file, FallocateFlags::KEEP_SIZE, 0, MIN_BYTES.max(file.metadata()?.len()));
    Ok(database)
}

/// What the database says; what the disk said to it, if it was that.
fn told(error: impl Into<redb::Error>) -> LotError {
    match error.into() {
        redb::Error::Io(error) => error.into(),
        error => failed(error),
    }
}

fn failed(error: impl std::fmt::Display) -> LotError {
    LotError::Failed(error.to_string())
}
