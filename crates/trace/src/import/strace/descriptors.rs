//! The open files of all processes, by descriptor.

use super::call::Call;
use hither_core::error::{Error, ErrorKind, Result};
use std::collections::HashMap;

/// Maximum number of entries of all tables together.
const MAX_ENTRIES: usize = 1 << 20;

/// The descriptors of all processes.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    /// The table of each thread; a thread without an entry has table 0.
    tables_of: HashMap<u32, usize>,
    /// The index of the open file of each descriptor. There is always a table 0.
    tables: Vec<HashMap<u64, usize>>,
    /// All files that were ever opened.
    files: Vec<OpenFile>,
    entries: usize,
}

#[derive(Debug)]
struct OpenFile {
    name: String,
    position: u64,
}

impl Descriptors {
    pub(super) fn open(&mut self, thread: u32, descriptor: u64, name: String) -> Result<()> {
        self.room(1)?;
        self.files.push(OpenFile { name, position: 0 });
        let file = self.files.len() - 1;
        self.table(thread).insert(descriptor, file);
        Ok(())
    }

    pub(super) fn close(&mut self, thread: u32, descriptor: Option<u64>) {
        if let Some(descriptor) = descriptor {
            self.table(thread).remove(&descriptor);
        }
    }

    /// Makes `to` a duplicate of `from`.
    pub(super) fn duplicate(&mut self, thread: u32, from: Option<u64>, to: u64) -> Result<()> {
        self.room(1)?;
        let table = self.table(thread);
        let file = from.and_then(|from| table.get(&from).copied());
        match file {
            Some(file) => table.insert(to, file),
            None => table.remove(&to),
        };
        Ok(())
    }

    /// Adds a thread that `parent` started, with the descriptors shared or copied.
    pub(super) fn child(&mut self, parent: u32, child: u64, shared: bool) -> Result<()> {
        let Ok(child) = u32::try_from(child) else { return Ok(()) };
        self.room(1)?;
        let table = if shared {
            self.tables_of.get(&parent).copied().unwrap_or(0)
        } else {
            let copy = self.table(parent).clone();
            self.room(copy.len())?;
            self.tables.push(copy);
            self.tables.len() - 1
        };
        self.tables_of.insert(child, table);
        Ok(())
    }

    /// Records the name that the recording states for the descriptor of a call, if there is one.
    pub(super) fn name(&mut self, thread: u32, call: &Call<'_>) -> Result<()> {
        let Some((descriptor, name)) = call.descriptor().zip(call.descriptor_name()) else {
            return Ok(());
        };
        if self.file(thread, Some(descriptor)).is_none_or(|file| file.name != name) {
            self.open(thread, descriptor, name.to_owned())?;
        }
        Ok(())
    }

    pub(super) fn name_of(&mut self, thread: u32, descriptor: Option<u64>) -> Option<String> {
        self.file(thread, descriptor).map(|file| file.name.clone())
    }

    /// Advances the position by `bytes`, and returns the previous position.
    pub(super) fn advance(
        &mut self,
        thread: u32,
        descriptor: Option<u64>,
        bytes: u64,
    ) -> Option<u64> {
        let file = self.file(thread, descriptor)?;
        let before = file.position;
        file.position = before.saturating_add(bytes);
        Some(before)
    }

    pub(super) fn seek(&mut self, thread: u32, descriptor: Option<u64>, position: Option<u64>) {
        if let (Some(file), Some(position)) = (self.file(thread, descriptor), position) {
            file.position = position;
        }
    }

    fn file(&mut self, thread: u32, descriptor: Option<u64>) -> Option<&mut OpenFile> {
        let file = *self.table(thread).get(&descriptor?)?;
        self.files.get_mut(file)
    }

    fn table(&mut self, thread: u32) -> &mut HashMap<u64, usize> {
        let table = self.tables_of.get(&thread).copied().unwrap_or(0);
        if self.tables.len() <= table {
            self.tables.resize_with(table + 1, HashMap::new);
        }
        #[expect(clippy::indexing_slicing, reason = "made just now if it was not there")]
        &mut self.tables[table]
    }

    /// Counts new entries. Entries are never removed from the count, so it bounds the memory.
    fn room(&mut self, entries: usize) -> Result<()> {
        self.entries = self.entries.saturating_add(entries);
        if self.entries > MAX_ENTRIES {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("the record opens or copies more than {MAX_ENTRIES} descriptors"),
            ));
        }
        Ok(())
    }
}
