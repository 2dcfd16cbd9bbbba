//! The loop of `TTree::Draw` over the elements of an entry, and the element of a branch that each
//! instance uses.
//!
//! All branches of an expression and its cut run in one loop. An instance is one iteration of it. A
//! branch without dimensions has the same value in every instance. Of the other branches, the
//! dimensions that no index fixes count, from the left. Dimensions at the same position run in
//! parallel, up to the length of the shortest:
//!
//! ```text
//! x[5] + y[3]         3 instances: x[0]+y[0], x[1]+y[1], x[2]+y[2]
//! m[2][3] + y[3]      6 instances: m[0][0]+y[0], m[0][1]+y[0], ... m[1][2]+y[1]
//!                     (y has no second dimension)
//! m[][1] + y          2 instances: m[0][1]+y[0], m[1][1]+y[1]
//! j[n] + x[5]         min(n, 5) instances
//! j[n] with jm[n][2]  2 n instances: j[0] with jm[0][0], j[0] with jm[0][1], j[1] with ...
//! j[2]                1 instance in entries where n > 2, none in others, with any other branches
//! ```
//!
//! These are ROOT's rules. Two of them are surprising (observed in ROOT 6.40,
//! `TTreeFormulaManager` and `TTreeFormula::GetRealInstance`):
//!
//! - A length of 1 does not limit the loop if a longer one follows; the cut comes before the value.
//!   With `z[1]`, `x + z` has one instance and `z + x` has five. The same holds for two jagged
//!   branches with different counters, in entries where the first has one item.
//! - The last dimension of a branch is not divided by the dimensions that only other branches have:
//!   `m[2][3] + c[2][3][4]` does not pair `m[i][j]` with `c[i][j][k]`, and a last dimension of 1
//!   gives wrong indices.
//!
//! One of ROOT's rules is not followed: in `c ? x : y` over arrays, ROOT (6.40) takes the elements
//! of `y` from an earlier entry if the first instance chose `x`, because it has not read `y` then.
//! This crate takes them from the same entry.
//!
//! Lists of lists (`vector<vector<float>>`) are one sequence from the first element to the last, as
//! in ROOT. ROOT treats them as two dimensions; this crate rejects an index into them, or a
//! combination with another array.
//!
//! If an instance uses an element that a branch does not have, the whole expression is NaN for that
//! instance, even if it is a comparison. A cut that is NaN passes.

use hither_core::{Error, ErrorKind};
use hither_formats::{Column, Values};
use std::borrow::Cow;

/// Maximum number of instances of one chunk. A chunk has some megabytes of columns, and
/// broadcasting can multiply them.
const MAX_INSTANCES: usize = 1 << 40;

/// A branch as used at one position of an expression.
#[derive(Debug)]
pub(crate) struct BoundColumn<'a> {
    pub(crate) column: Cow<'a, Column>,
    /// True for lists of lists, which were flattened.
    nested: bool,
    /// One index for each dimension, the jagged one first.
    indices: Vec<BoundIndex>,
    /// Sizes of the dimensions; that of the jagged one is not used.
    sizes: Vec<usize>,
    /// Distances of neighbouring elements of each dimension, in values.
    strides: Vec<usize>,
    /// The mapping from an instance to its value.
    pub(crate) access: ValueAccess,
}

/// The elements of a dimension that an expression uses.
#[derive(Debug)]
pub(crate) enum BoundIndex {
    /// All elements: a dimension of the loop.
    All,
    /// The same element in every entry.
    Fixed(usize),
    /// One element, computed for each entry.
    PerEntry(Vec<f64>),
}

/// The mapping from an instance to its value in the column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueAccess {
    /// A scalar: the value at the number of the entry.
    PerEntry,
    /// The value at the number of the instance, counted from the start of the chunk.
    Identity,
    /// The value at [`BoundColumn::position`].
    Computed,
}

impl<'a> BoundColumn<'a> {
    /// Checks `column` and the indices after its name.
    pub(crate) fn new(
        name: &str,
        column: &'a Column,
        entries: usize,
        mut indices: Vec<BoundIndex>,
    ) -> Result<Self, Error> {
        let nested = matches!(column.values, Values::Lists(_));
        let column =
            if nested { Cow::Owned(flatten_lists(column)?) } else { Cow::Borrowed(column) };
        check_column(name, &column, entries)?;
        if nested && !indices.is_empty() {
            let message =
                format!("`{name}` holds lists of lists; indices into them are not supported");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let jagged = usize::from(column.offsets.is_some());
        let dimensions = jagged + column.item_shape.len();
        if indices.len() > dimensions {
            let message = match dimensions {
                0 => format!("`{name}` is not an array and takes no index"),
                1 => format!("`{name}` has 1 dimension, {} indices given", indices.len()),
                n => format!("`{name}` has {n} dimensions, {} indices given", indices.len()),
            };
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        indices.resize_with(dimensions, || BoundIndex::All);
        let mut sizes = vec![usize::MAX; jagged];
        sizes.extend(&column.item_shape);
        let mut strides = vec![1; dimensions];
        for d in (1..dimensions).rev() {
            strides[d - 1] = usize::saturating_mul(strides[d], sizes[d]);
        }
        for (d, (index, size)) in indices.iter().zip(&sizes).enumerate() {
            if let BoundIndex::Fixed(index) = index
                && index >= size
            {
                let message = format!(
                    "index {index} of dimension {} of `{name}` is out of range, the size is {size}",
                    d + 1
                );
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        }
        let access = if dimensions == 0 { ValueAccess::PerEntry } else { ValueAccess::Computed };
        Ok(Self { column, nested, indices, sizes, strides, access })
    }

    /// Returns true if the value can differ between the instances of an entry. Arrays of one
    /// element do not: `z[1]` as a cut on `x[5]` is evaluated for the first instance only.
    pub(crate) fn is_per_instance(&self) -> bool {
        let free = self.indices.iter().zip(&self.sizes);
        free.into_iter().any(|(index, size)| matches!(index, BoundIndex::All) && *size != 1)
    }

    /// Number of items of a jagged column in `entry`.
    fn items(&self, entry: usize) -> Option<usize> {
        let offsets = self.column.offsets.as_ref()?;
        let items = offsets.get(entry + 1)?.checked_sub(*offsets.get(entry)?)?;
        usize::try_from(items).ok()
    }

    /// The position of the value for `instance` of `entry`; `None` if there is no such element.
    pub(crate) fn position(
        &self,
        entry: usize,
        instance: usize,
        instances: &Instances,
    ) -> Option<usize> {
        let range = self.column.value_range(entry);
        let element = self.element(entry, instance, instances)?;
        (element < range.len()).then(|| range.start + element)
    }

    /// The element of `entry` that `instance` uses, counted from the first one of the entry:
    /// `TTreeFormula::GetRealInstance`.
    fn element(&self, entry: usize, instance: usize, instances: &Instances) -> Option<usize> {
        let last = self.indices.len().saturating_sub(1);
        let mut loop_dimension = 0;
        let mut element = 0_usize;
        for (d, index) in self.indices.iter().enumerate() {
            let local = match index {
                BoundIndex::Fixed(index) => *index,
                BoundIndex::PerEntry(indices) => {
                    let index = indices.get(entry).copied().unwrap_or(f64::NAN);
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "not negative; an index that is too large saturates and is limited below"
                    )]
                    let whole = if index > -1.0 { index.max(0.0) as usize } else { return None };
                    if d == 0 { whole } else { whole.min(self.sizes.get(d)?.checked_sub(1)?) }
                }
                BoundIndex::All => {
                    let own = instances.volume(loop_dimension);
                    let inner = instances.volume(loop_dimension + 1);
                    let within =
                        if loop_dimension > 0 && own > 1 { instance % own } else { instance };
                    loop_dimension += 1;
                    if d == last && d > 0 { within } else { within / inner.max(1) }
                }
            };
            element = element.checked_add(local.checked_mul(*self.strides.get(d)?)?)?;
        }
        Some(element)
    }

    /// Chooses [`ValueAccess::Identity`] if the values of the column are in the order of the
    /// instances.
    pub(crate) fn choose_access(&mut self, instances: &Instances, entries: usize) {
        if self.access == ValueAccess::PerEntry
            || self.column.item_len() == 0
            || !self.indices.iter().all(|index| matches!(index, BoundIndex::All))
        {
            return;
        }
        let same_lengths = match &instances.counts {
            Counts::Uniform(count) => {
                self.column.offsets.is_none() && *count == self.column.item_len()
            }
            Counts::Varying(starts) => {
                starts.iter().enumerate().all(|(entry, start)| match &self.column.offsets {
                    Some(offsets) => offsets.get(entry).is_some_and(|offset| {
                        usize::try_from(*offset).ok() == start.checked_div(self.column.item_len())
                            && start % self.column.item_len() == 0
                    }),
                    None => *start == entry * self.column.item_len(),
                })
            }
        };
        // The order repeats with the volume of the inner dimensions, or the difference grows with
        // every instance: two periods are sufficient to decide.
        let checked = (2 * instances.volume(1) + 2).min(match &instances.counts {
            Counts::Uniform(count) => *count,
            Counts::Varying(_) => usize::MAX,
        });
        let same_order =
            || (0..checked).all(|instance| self.element(0, instance, instances) == Some(instance));
        if entries > 0 && same_lengths && same_order() {
            self.access = ValueAccess::Identity;
        }
    }
}

/// The loop of one formula, or of a value and its cut.
#[derive(Debug)]
pub(crate) struct Instances {
    counts: Counts,
    /// `volumes[d]` is the number of instances of dimension `d` and all inner ones, for `d > 0`.
    volumes: Vec<usize>,
}

/// Numbers of instances.
#[derive(Debug)]
enum Counts {
    /// The number of instances of every entry.
    Uniform(usize),
    /// For each entry and for the end, the number of instances of all entries before.
    Varying(Vec<usize>),
}

impl Instances {
    /// Creates the loop over `columns`, in ROOT's order: those of the cut first.
    pub(crate) fn new(columns: &[BoundColumn<'_>], entries: usize) -> Result<Self, Error> {
        check_nested(columns)?;
        let mut sizes: Vec<usize> = Vec::new();
        for column in columns {
            let jagged = column.column.offsets.is_some();
            let dimensions = column.indices.iter().zip(&column.sizes).enumerate();
            let loops = dimensions.filter(|(_, (index, _))| matches!(index, BoundIndex::All));
            for (loop_dimension, (d, (_, size))) in loops.enumerate() {
                if sizes.len() <= loop_dimension {
                    sizes.push(1);
                }
                // the size of a jagged dimension depends on the entry
                if let Some(min) = sizes.get_mut(loop_dimension)
                    && !(jagged && d == 0)
                    && (*min == 1 || size < min)
                {
                    *min = *size;
                }
            }
        }
        let mut volumes = vec![1_usize; sizes.len() + 1];
        for d in (0..sizes.len()).rev() {
            volumes[d] = volumes[d + 1].checked_mul(sizes[d]).ok_or_else(too_many_instances)?;
        }
        let inner = volumes.get(1).copied().unwrap_or(1);
        let first = sizes.first().copied().unwrap_or(1);
        let jagged: Vec<_> = columns.iter().filter(|c| c.column.offsets.is_some()).collect();
        let counts = if jagged.is_empty() {
            let count = volumes.first().copied().unwrap_or(1);
            let total = count.checked_mul(entries).filter(|total| *total <= MAX_INSTANCES);
            total.ok_or_else(too_many_instances)?;
            Counts::Uniform(count)
        } else {
            let mut starts = Vec::with_capacity(entries + 1);
            let mut total = 0_usize;
            starts.push(0);
            for entry in 0..entries {
                total = first_dimension(&jagged, entry, first)
                    .checked_mul(inner)
                    .and_then(|count| total.checked_add(count))
                    .filter(|total| *total <= MAX_INSTANCES)
                    .ok_or_else(too_many_instances)?;
                starts.push(total);
            }
            Counts::Varying(starts)
        };
        Ok(Self { counts, volumes })
    }

    /// Number of instances of dimension `d` and all inner ones, for `d > 0`.
    fn volume(&self, d: usize) -> usize {
        self.volumes.get(d).copied().unwrap_or(1)
    }

    /// The number of instances of every entry; `None` if it differs between entries.
    pub(crate) fn uniform(&self) -> Option<usize> {
        match self.counts {
            Counts::Uniform(count) => Some(count),
            Counts::Varying(_) => None,
        }
    }

    /// The shape of a column with one value for each instance of `entries` entries: the offsets of
    /// its items if their number varies, and the dimensions of one item.
    pub(crate) fn shape(&self, entries: usize) -> (Option<Vec<i64>>, Vec<usize>) {
        let sizes = self.volumes.windows(2).map(|pair| pair[0].checked_div(pair[1]).unwrap_or(0));
        match &self.counts {
            Counts::Uniform(_) => (None, sizes.collect()),
            Counts::Varying(starts) => {
                let inner = self.volume(1);
                let item = |start: &usize| {
                    i64::try_from(start.checked_div(inner).unwrap_or(0)).unwrap_or(i64::MAX)
                };
                let offsets = starts.iter().take(entries + 1).map(item).collect();
                (Some(offsets), sizes.skip(1).collect())
            }
        }
    }

    /// Number of instances of all entries before `entry`.
    pub(crate) fn start(&self, entry: usize) -> usize {
        match &self.counts {
            Counts::Uniform(count) => entry * count,
            Counts::Varying(starts) => {
                starts.get(entry).or_else(|| starts.last()).copied().unwrap_or(0)
            }
        }
    }

    /// Number of instances of `entry`.
    pub(crate) fn count(&self, entry: usize) -> usize {
        self.start(entry + 1) - self.start(entry)
    }

    /// The entry of `instance`, counted from the start of the chunk; searches from entry `from` on.
    pub(crate) fn entry_of(&self, instance: usize, from: usize) -> usize {
        match &self.counts {
            Counts::Uniform(count) => instance / (*count).max(1),
            Counts::Varying(starts) => {
                let tail = starts.get(from..).unwrap_or_default();
                // usually it is the same entry or one of the next few
                let near = tail.iter().take(8).position(|start| *start > instance);
                let after =
                    near.unwrap_or_else(|| tail.partition_point(|start| *start <= instance));
                (from + after).saturating_sub(1)
            }
        }
    }
}

/// The length of the first dimension of the loop in `entry`; 0 if a fixed index is out of range.
fn first_dimension(jagged: &[&BoundColumn<'_>], entry: usize, fixed: usize) -> usize {
    let mut length = fixed;
    for column in jagged {
        let items = column.items(entry).unwrap_or(0);
        match column.indices.first() {
            Some(BoundIndex::All) if length == 1 || items < length => length = items,
            Some(BoundIndex::Fixed(index)) if *index >= items => return 0,
            _ => {}
        }
    }
    length
}

/// Rejects lists of lists in combination with other arrays: the flattened list does not pair with
/// other dimensions as in ROOT.
fn check_nested(columns: &[BoundColumn<'_>]) -> Result<(), Error> {
    let Some(nested) = columns.iter().find(|column| column.nested) else { return Ok(()) };
    let compatible = |other: &BoundColumn<'_>| {
        other.indices.is_empty() || (other.nested && other.column.offsets == nested.column.offsets)
    };
    if columns.iter().all(compatible) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        "lists of lists can be combined with single numbers and with themselves, not with other arrays",
    ))
}

/// Flattens the values of each entry to one list.
fn flatten_lists(column: &Column) -> Result<Column, Error> {
    let corrupt =
        || Error::new(ErrorKind::Corrupt, "the offsets of a column of lists are out of range");
    let mut ends: Vec<usize> =
        (0..column.entries).map(|entry| column.value_range(entry).end).collect();
    let mut level = column;
    while let Values::Lists(inner) = &level.values {
        for end in &mut ends {
            *end = match end.checked_sub(1) {
                Some(last) if last < inner.entries => inner.value_range(last).end,
                Some(_) => return Err(corrupt()),
                None => 0,
            };
        }
        level = inner;
    }
    let mut offsets = vec![0];
    for end in ends {
        offsets.push(i64::try_from(end).map_err(|_| corrupt())?);
    }
    let entries = column.entries;
    Ok(Column {
        entries,
        offsets: Some(offsets),
        item_shape: Vec::new(),
        values: level.values.clone(),
    })
}

fn too_many_instances() -> Error {
    Error::new(
        ErrorKind::Invalid,
        "the loop over these branches has too many instances; fix some of their indices",
    )
}

/// Checks the invariants of [`Column`].
fn check_column(name: &str, column: &Column, entries: usize) -> Result<(), Error> {
    let corrupt = |why: String| {
        Error::new(ErrorKind::Corrupt, format!("the column of branch `{name}` {why}"))
    };
    if column.entries != entries {
        return Err(corrupt(format!("has {} entries, expected {entries}", column.entries)));
    }
    let unsupported = |what: &str| {
        let message = format!("branch `{name}` holds {what}, an expression can use only numbers");
        Err(Error::new(ErrorKind::Unsupported, message))
    };
    if matches!(column.values, Values::Text(_)) {
        return unsupported("strings");
    }
    let item = column.item_shape.iter().try_fold(1_usize, |n, size| n.checked_mul(*size));
    let items = match &column.offsets {
        None => entries,
        Some(offsets) => {
            let ordered = offsets.windows(2).all(|pair| pair[0] <= pair[1]);
            if offsets.len() != entries + 1 || offsets.first() != Some(&0) || !ordered {
                return Err(corrupt("has offsets that do not start at 0 and increase".to_owned()));
            }
            offsets.last().and_then(|last| usize::try_from(*last).ok()).unwrap_or(usize::MAX)
        }
    };
    let values = column.values.len();
    if item.and_then(|item| item.checked_mul(items)) != Some(values) {
        return Err(corrupt(format!("has {values} values, expected {items} items of its shape")));
    }
    Ok(())
}
