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
/// is a column of its own, `branch.leaf`. Branches that only group others, and branches whose type
/// cannot be decoded, are listed too; they say what is missing when their type is asked for.
#[derive(Debug, Clone)]
pub struct Branch {
    pub(crate) path: String,
    /// Where in the path the branch's own name begins.
    pub(crate) own: usize,
    pub(crate) leaf: String,
    pub(crate) title: String,
    pub(crate) type_name: String,
    pub(crate) content: Result<Interpretation, FormatError>,
    pub(crate) baskets: Arc<BasketTable>,
    /// The type of an entry, of a branch that is not one plain column.
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

    /// Name of the leaf; often that of the branch.
    #[must_use]
    pub fn leaf_name(&self) -> &str {
        &self.leaf
    }

    /// The branch's title.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The C++ type of an entry, as uproot writes it: `float[17]`, `int32_t`, `float[]`; a class's
    /// name, or `unknown`, where the branch cannot be decoded.
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
    /// [`FormatError::Unsupported`] naming branch and type, or what is corrupt about the branch.
    pub fn column_type(&self) -> Result<ColumnType> {
        self.content.as_ref().map(|content| content.column.clone()).map_err(Clone::clone)
    }

    /// The type of an entry, of a branch that groups others, has several columns, or is a set.
    #[must_use]
    pub fn record(&self) -> Option<&RecordType> {
        self.record.as_ref()
    }

    /// Returns true for the number of items of a split collection, `@jets.size()`, which is a
    /// column for expressions and no branch.
    #[must_use]
    pub fn is_size(&self) -> bool {
        self.path.starts_with('@') && self.path.ends_with(".size()")
    }

    /// Where the data are.
    #[must_use]
    pub fn baskets(&self) -> &BasketTable {
        &self.baskets
    }

    pub(crate) fn shared_baskets(&self) -> Arc<BasketTable> {
        Arc::clone(&self.baskets)
    }

    /// Decodes basket `index` from the bytes of its range; for an embedded basket, whose range is
    /// none, `bytes` is ignored. Prefer [`Self::decode_basket_with`] for many baskets.
    ///
    /// # Errors
    /// As [`Self::decode_basket_with`].
    pub fn decode_basket(&self, index: usize, bytes: &[u8]) -> Result<Column> {
        self.decode_basket_with(&mut Decompressor::new(), index, bytes)
    }

    /// Decodes basket `index` with a decoder that is used again and again.
    ///
    /// # Errors
    /// A basket that does not exist, corrupt bytes, or an unsupported type.
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

    /// Says in the message which branch and basket it was.
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
