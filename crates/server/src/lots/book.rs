//! What has been agreed, in an embedded database: a record for each lot, by its id.

use super::accounts::{Lot, LotError};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use std::path::Path;

/// By id: a [`Lot`] as JSON. A change of the format gets another name.
const LOTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("lots-1");

/// See the module above.
#[derive(Debug)]
pub(super) struct Book {
    database: Database,
}

impl Book {
    pub(super) fn open(path: &Path) -> Result<Self, LotError> {
        let database = Database::create(path).map_err(failed)?;
        let begun = database.begin_write().map_err(failed)?;
        begun.open_table(LOTS).map_err(failed)?;
        begun.commit().map_err(failed)?;
        Ok(Self { database })
    }

    /// All lots. A record that cannot be read fails: to forget it might promise its space twice.
    pub(super) fn all(&self) -> Result<Vec<Lot>, LotError> {
        let table = self.database.begin_read().map_err(failed)?.open_table(LOTS).map_err(failed)?;
        let mut lots = Vec::new();
        for record in table.iter().map_err(failed)? {
            let (_, record) = record.map_err(failed)?;
            lots.push(serde_json::from_slice(record.value()).map_err(failed)?);
        }
        Ok(lots)
    }

    /// Keeps a lot; on return it is on the disk.
    pub(super) fn put(&self, lot: &Lot) -> Result<(), LotError> {
        let record = serde_json::to_vec(lot).map_err(failed)?;
        let begun = self.database.begin_write().map_err(failed)?;
        begun
            .open_table(LOTS)
            .map_err(failed)?
            .insert(lot.id.as_str(), record.as_slice())
            .map_err(failed)?;
        begun.commit().map_err(failed)
    }

    /// Forgets a lot, if there is such a one.
    pub(super) fn remove(&self, id: &str) -> Result<(), LotError> {
        let begun = self.database.begin_write().map_err(failed)?;
        begun.open_table(LOTS).map_err(failed)?.remove(id).map_err(failed)?;
        begun.commit().map_err(failed)
    }
}

fn failed(error: impl std::fmt::Display) -> LotError {
    LotError::Failed(error.to_string())
}
