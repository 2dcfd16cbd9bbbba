//! A column of a tree: a branch, or one leaf of a branch that has several.

use crate::Column;
use crate::error::{FormatError, Result};
use crate::root::basket::decode_stored;
use crate::root::codec::Decompressor;
use crate::root::interpretation::Interpretation;
use crate::root::interpretation::column_type::ColumnType;
use crate::root::interpretation::record_type::RecordType;
use crate::root::tree::basket_table::BasketTable;
use std::sync::Arc;

/// A column of a tree.
///
/// A branch with one leaf is one column under the branch's path; each leaf of a branch with several
/// is a separate column, `branch.leaf`. Branches that only group others, and branches whose type
/// cannot be decoded, are listed, too; [`Branch::column_type`] returns the reason as an error.
#[derive(Debug, Clone)]
pub struct Branch {
    pub(crate) path: String,
    /// Index in the path at which the branch's own name begins.
    pub(crate) own: usize,
    pub(crate) leaf: String,
    pub(crate) title: String,
    pub(crate) type_name: String,
    pub(crate) content: Result<Interpretation, FormatError>,
    pub(crate) baskets: Arc<BasketTable>,
    /// The type of an entry, for a branch that is not one plain column.
    pub(crate) record: Option<RecordType>,
}

impl Branch {
    /// Path in the tree: `E33`, `event/tracks`, or `branch.leaf` for one of several leaves.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.path
    }

    /// The branch's own name, without the groups above it.
    #[must_use]
    pub fn own_name(&self) -> &str {
        self.path.get(self.own..).unwrap_or(&self.path)
    }

    /// Name of the leaf; often equal to the branch's.
    #[must_use]
    pub fn leaf_name(&self) -> &str {
        &self.leaf
    }

    /// The branch's title.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The C++ type of an entry in the notation of uproot: `float[17]`, `int32_t`, `float[]`. If
    /// the branch cannot be decoded, the name of its class, or `unknown`.
    #[must_use]
    pub fn type_name(&self) -> String {
        match &self.content {
            Ok(content) => content.type_name.clone().unwrap_or_else(|| content.column.name()),
            Err(_) if self.type_name.is_empty() => "unknown".to_owned(),
            Err(_) => self.type_name.clone(),
        }
    }

    /// The type of the column.
    ///
    /// # Errors
    /// [`FormatError::Unsupported`] with branch and type, or the corruption of the branch.
    pub fn column_type(&self) -> Result<ColumnType> {
        self.content.as_ref().map(|content| content.column.clone()).map_err(Clone::clone)
    }

    /// The type of an entry, for a branch that groups others, has several columns, or is a set.
    #[must_use]
    pub fn record(&self) -> Option<&RecordType> {
        self.record.as_ref()
    }

    /// Returns true for the number of items of a split collection, `@jets.size()`, which is a
    /// column for expressions and not a branch.
    #[must_use]
    pub fn is_size(&self) -> bool {
        self.path.starts_with('@') && self.path.ends_with(".size()")
    }

    /// The baskets with the data.
    #[must_use]
    pub fn baskets(&self) -> &BasketTable {
        &self.baskets
    }

    pub(crate) fn shared_baskets(&self) -> Arc<BasketTable> {
        Arc::clone(&self.baskets)
    }

    /// Decodes basket `index` from the bytes of its range; for an embedded basket, which has no
    /// range, `bytes` is ignored. For many baskets use [`Self::decode_basket_with`].
    ///
    /// # Errors
    /// As [`Self::decode_basket_with`].
    pub fn decode_basket(&self, index: usize, bytes: &[u8]) -> Result<Column> {
        self.decode_basket_with(&mut Decompressor::new(), index, bytes)
    }

    /// Decodes basket `index` with a reusable decompressor.
    ///
    /// # Errors
    /// The basket does not exist, its bytes are corrupt, or its type is unsupported.
    pub fn decode_basket_with(
        &self,
        decoder: &mut Decompressor,
        index: usize,
        bytes: &[u8],
    ) -> Result<Column> {
        let Interpretation { column, plan, .. } = self.content.as_ref().map_err(Clone::clone)?;
        if index >= self.baskets.len() {
            let what = format!(
                "branch `{}` has {} baskets, number {index} was asked for",
                self.path,
                self.baskets.len()
            );
            return Err(FormatError::Invalid { what });
        }
        let range = self.baskets.entries(index);
        let entries = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let decoded = match (self.baskets.embedded(index), self.baskets.range(index)) {
            (Some(basket), _) => basket.decode(plan, entries),
            (None, Some(_)) => decode_stored(bytes, decoder, plan, entries),
            (None, None) => {
                Err(FormatError::corrupt("basket", "is neither in the file nor in the tree"))
            }
        };
        match decoded {
            Ok(mut decoded) => {
                decoded.item_shape.clone_from(&column.item_shape);
                Ok(decoded)
            }
            Err(error) => Err(self.name_in(error, index)),
        }
    }

    /// Adds the branch and the basket to the message of an error.
    fn name_in(&self, error: FormatError, index: usize) -> FormatError {
        let named = |what: String| format!("{what} {index} of branch `{}`", self.path);
        match error {
            FormatError::Corrupt { what, why } => FormatError::Corrupt { what: named(what), why },
            FormatError::Truncated { what, needed, available } => {
                FormatError::Truncated { what: named(what), needed, available }
            }
            FormatError::UnsupportedFeature { what } => FormatError::Unsupported {
                branch: self.path.clone(),
                type_name: self.type_name(),
                why: what,
            },
            other => other,
        }
    }
}
