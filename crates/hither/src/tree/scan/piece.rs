//! Pieces of decoded baskets, which make up a chunk.

use hither_formats::{Column, FormatError};
use std::ops::Range;
use std::sync::Arc;

/// A range of entries of a decoded column, which other pieces may share.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    column: Arc<Column>,
    /// Invariant: they lie within the column.
    entries: Range<usize>,
}

impl Piece {
    /// All of a column.
    pub(crate) fn whole(column: Column) -> Self {
        Self { entries: 0..column.entries, column: Arc::new(column) }
    }

    /// The part of `column` that holds any of `entries`; the column begins with entry `start` of
    /// the tree.
    pub(crate) fn within(column: Arc<Column>, start: u64, entries: &Range<u64>) -> Self {
        let at = |entry: u64| usize::try_from(entry.saturating_sub(start)).unwrap_or(usize::MAX);
        let end = at(entries.end).min(column.entries);
        Self { entries: at(entries.start).min(end)..end, column }
    }

    /// Number of entries.
    fn len(&self) -> usize {
        self.entries.len()
    }

    /// Concatenates pieces. A single piece that is a whole column is not copied.
    ///
    /// # Errors
    ///
    /// As [`Column::concat_parts`].
    pub(crate) fn joined(mut pieces: Vec<Self>) -> Result<Column, FormatError> {
        match pieces.pop() {
            Some(only) if pieces.is_empty() && only.len() == only.column.entries => {
                Ok(Arc::try_unwrap(only.column).unwrap_or_else(|shared| (*shared).clone()))
            }
            last => {
                pieces.extend(last);
                let parts: Vec<_> =
                    pieces.iter().map(|it| (it.column.as_ref(), it.entries.clone())).collect();
                Column::concat_parts(&parts)
            }
        }
    }
}

/// The columns of one chunk in pieces, in the order of [`super::Scan::columns`].
#[derive(Debug)]
pub(crate) struct ChunkPieces {
    pub(crate) entries: Range<u64>,
    /// Invariant: the pieces of each column hold as many entries as the chunk.
    pub(crate) columns: Vec<Vec<Piece>>,
}

impl ChunkPieces {
    /// The pieces of a chunk, for the branches `names`. Fails if they do not hold all its entries:
    /// baskets are missing, or the table of baskets contradicts itself.
    pub(crate) fn new(
        entries: Range<u64>,
        columns: Vec<Vec<Piece>>,
        names: &[String],
    ) -> Result<Self, FormatError> {
        let expected = usize::try_from(entries.end - entries.start).unwrap_or(usize::MAX);
        for (pieces, name) in columns.iter().zip(names) {
            let held: usize = pieces.iter().map(Piece::len).sum();
            if held != expected {
                return Err(FormatError::Corrupt {
                    what: format!(
                        "the table of baskets of branch `{name}` for entries {}..{}",
                        entries.start, entries.end
                    ),
                    why: format!(
                        "baskets hold {held} entries of them, expected {expected}: select other \
                         branches"
                    ),
                });
            }
        }
        Ok(Self { entries, columns })
    }

    /// The columns in one piece each.
    ///
    /// # Errors
    ///
    /// As [`Piece::joined`].
    pub(crate) fn joined(self) -> Result<ChunkColumns, FormatError> {
        let columns = self.columns.into_iter().map(Piece::joined).collect::<Result<_, _>>()?;
        Ok(ChunkColumns { entries: self.entries, columns })
    }
}

/// The columns of one chunk, in the order of [`super::Scan::columns`].
pub(crate) struct ChunkColumns {
    pub(crate) entries: Range<u64>,
    pub(crate) columns: Vec<Column>,
}
