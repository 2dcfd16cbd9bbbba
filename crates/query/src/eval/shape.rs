//! The loop of `TTree::Draw` over the elements of an entry, and the element of a branch for each
//! turn.
//!
//! All branches of an expression and its cut run in one loop. A branch without dimensions is the
//! same in every turn. Of the others, those dimensions count that no index fixes, from the left;
//! dimensions at the same position run together, up to the length of the shortest:
//!
//! ```text
//! x[5] + y[3]       3 turns: x[0]+y[0], x[1]+y[1], x[2]+y[2]
//! m[2][3] + y[3]    6 turns: m[0][0]+y[0], m[0][1]+y[0], ... m[1][2]+y[1]   (y has only one)
//! m[][1] + y        2 turns: m[0][1]+y[0], m[1][1]+y[1]
//! j[n] + x[5]       min(n, 5) turns
//! j[n] with jm[n][2] 2 n turns: j[0] with jm[0][0], j[0] with jm[0][1], j[1] with jm[1][0], ...
//! j[2]              one turn in entries where n > 2, none elsewhere (whatever else is in the loop)
//! ```
//!
//! This follows ROOT exactly, including two oddities (seen in ROOT 6.40, `TTreeFormulaManager` and
//! `TTreeFormula::GetRealInstance`):
//!
//! - A length of 1 does not limit the loop if a longer one follows, where the cut comes before the
//!   value: with `z[1]`, `x + z` has one turn and `z + x` has five. The same holds for two jagged
//!   branches with different counters in entries where the first has one item.
//! - The last dimension of a branch is not divided by the dimensions that only others have, so
//!   `m[2][3] + c[2][3][4]` does not pair `m[i][j]` with `c[i][j][k]`, and a last dimension of 1
//!   counts wrong.
//!
//! One oddity is not followed: in `c ? x : y` over arrays, ROOT (6.40) takes the elements of `y`
//! from an earlier entry where the first turn took `x`, because it has not read `y` then. Here they
//! are those of the entry.
//!
//! Lists in lists (`vector<vector<float>>`) are read from the first element to the last, as in
//! ROOT. For ROOT they have two dimensions; here they take no indices, and pairing them with
//! another array is an error.
//!
//! Where a branch lacks the element that the loop needs, the whole expression is NaN for that turn,
//! comparisons included; a cut that is NaN lets the value pass.

use hither_core::{Error, ErrorKind};
use hither_formats::{Column, Values};
use std::borrow::Cow;

/// The maximum number of turns of one chunk's loop. A chunk is some megabytes of columns;
/// broadcasting can multiply that.
const MAX_TURNS: usize = 1 << 40;

/// A use of a branch at one position of an expression.
#[derive(Debug)]
pub(crate) struct BoundColumn<'a> {
    pub(crate) column: Cow<'a, Column>,
    /// True for lists in lists, which are concatenated.
    nested: bool,
    /// One for each dimension, the jagged one first.
    indices: Vec<BoundIndex>,
    /// The fixed sizes of the dimensions; that of the jagged one is ignored.
    sizes: Vec<usize>,
    /// The distance between neighbours of each dimension, in values.
    strides: Vec<usize>,
    /// The position of the column's values relative to the turns of the loop.
    pub(crate) access: Access,
}

/// The selected elements of a dimension.
#[derive(Debug)]
pub(crate) enum BoundIndex {
    /// All: a dimension of the loop.
    All,
    /// One element.
    At(usize),
    /// One element for each entry.
    PerEntry(Vec<f64>),
}

/// The way to find the value for a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// A scalar: the value at the number of the entry.
    PerEntry,
    /// The values of the column are the turns, numbered through all entries.
    Identity,
    /// The position is computed.
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
        let column = if nested { Cow::Owned(concatenate(column)?) } else { Cow::Borrowed(column) };
        check(name, &column, entries)?;
        if nested && !indices.is_empty() {
            let message =
                format!("`{name}` holds lists of lists, indices into them are not supported");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let jagged = usize::from(column.offsets.is_some());
        let dimensions = jagged + column.item_shape.len();
        if indices.len() > dimensions {
            let message = match dimensions {
                0 => format!("`{name}` is not an array, it takes no index"),
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
            if let BoundIndex::At(at) = index
                && at >= size
            {
                let message = format!(
                    "index {at} of dimension {} of `{name}` is out of range, it has {size} elements",
                    d + 1
                );
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        }
        let access = if dimensions == 0 { Access::PerEntry } else { Access::Computed };
        Ok(Self { column, nested, indices, sizes, strides, access })
    }

    /// Returns true if it differs between the turns of an entry. A fixed array of one element does
    /// not: as a cut on `x[5]`, `z[1]` is evaluated in the first turn only.
    pub(crate) fn is_multiple(&self) -> bool {
        let free = self.indices.iter().zip(&self.sizes);
        free.into_iter().any(|(index, size)| matches!(index, BoundIndex::All) && *size != 1)
    }

    /// The number of items in `entry`, for jagged columns.
    fn items(&self, entry: usize) -> Option<usize> {
        let offsets = self.column.offsets.as_ref()?;
        let items = offsets.get(entry + 1)?.checked_sub(*offsets.get(entry)?)?;
        usize::try_from(items).ok()
    }

    /// The position of the element for a turn among the column's values; none if it does not exist.
    pub(crate) fn position(&self, entry: usize, turn: usize, turns: &Instances) -> Option<usize> {
        let range = self.column.value_range(entry);
        let element = self.element(entry, turn, turns)?;
        (element < range.len()).then(|| range.start + element)
    }

    /// The element of an entry for a turn, as `TTreeFormula::GetRealInstance` computes it; see the
    /// head of this file.
    fn element(&self, entry: usize, turn: usize, turns: &Instances) -> Option<usize> {
        let last = self.indices.len().saturating_sub(1);
        let mut free = 0;
        let mut element = 0_usize;
        for (d, index) in self.indices.iter().enumerate() {
            let local = match index {
                BoundIndex::At(at) => *at,
                BoundIndex::PerEntry(at) => {
                    let at = at.get(entry).copied().unwrap_or(f64::NAN);
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "not negative; what is too large saturates and is refused or cut below"
                    )]
                    let whole = if at > -1.0 { at.max(0.0) as usize } else { return None };
                    if d == 0 { whole } else { whole.min(self.sizes.get(d)?.checked_sub(1)?) }
                }
                BoundIndex::All => {
                    let own = turns.volume(free);
                    let inner = turns.volume(free + 1);
                    let within = if free > 0 && own > 1 { turn % own } else { turn };
                    free += 1;
                    if d == last && d > 0 { within } else { within / inner.max(1) }
                }
            };
            element = element.checked_add(local.checked_mul(*self.strides.get(d)?)?)?;
        }
        Some(element)
    }

    /// Detects whether the values of this column are the turns of the loop, numbered through.
    pub(crate) fn choose_access(&mut self, turns: &Instances, entries: usize) {
        if self.access == Access::PerEntry
            || self.column.item_len() == 0
            || !self.indices.iter().all(|index| matches!(index, BoundIndex::All))
        {
            return;
        }
        let same_lengths = match &turns.counts {
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
        // The pattern repeats with the volume of the inner dimensions, or grows with every turn:
        // two periods show which.
        let shown = (2 * turns.volume(1) + 2).min(match &turns.counts {
            Counts::Uniform(count) => *count,
            Counts::Varying(_) => usize::MAX,
        });
        let same_order = || (0..shown).all(|turn| self.element(0, turn, turns) == Some(turn));
        if entries > 0 && same_lengths && same_order() {
            self.access = Access::Identity;
        }
    }
}

/// The loop of one formula, or of a value and its cut.
#[derive(Debug)]
pub(crate) struct Instances {
    counts: Counts,
    /// The number of turns of the dimensions from `d` inwards, for `d > 0`.
    volumes: Vec<usize>,
}

#[derive(Debug)]
enum Counts {
    /// The number of turns, equal for all entries.
    Uniform(usize),
    /// The number of turns of all entries before, for each entry and for the end.
    Varying(Vec<usize>),
}

impl Instances {
    /// The loop over `columns`, in the order in which ROOT visits them: those of the cut first.
    pub(crate) fn new(columns: &[BoundColumn<'_>], entries: usize) -> Result<Self, Error> {
        check_nested(columns)?;
        let mut sizes: Vec<usize> = Vec::new();
        for column in columns {
            let jagged = column.column.offsets.is_some();
            let free = column.indices.iter().zip(&column.sizes).enumerate();
            let free = free.filter(|(_, (index, _))| matches!(index, BoundIndex::All));
            for (place, (d, (_, size))) in free.enumerate() {
                if sizes.len() <= place {
                    sizes.push(1);
                }
                // The length of a jagged dimension is found entry by entry.
                if let Some(shortest) = sizes.get_mut(place)
                    && !(jagged && d == 0)
                    && (*shortest == 1 || size < shortest)
                {
                    *shortest = *size;
                }
            }
        }
        let mut volumes = vec![1_usize; sizes.len() + 1];
        for d in (0..sizes.len()).rev() {
            volumes[d] = volumes[d + 1].checked_mul(sizes[d]).ok_or_else(too_many)?;
        }
        let inner = volumes.get(1).copied().unwrap_or(1);
        let first = sizes.first().copied().unwrap_or(1);
        let jagged: Vec<_> = columns.iter().filter(|c| c.column.offsets.is_some()).collect();
        let counts = if jagged.is_empty() {
            let count = volumes.first().copied().unwrap_or(1);
            count.checked_mul(entries).filter(|n| *n <= MAX_TURNS).ok_or_else(too_many)?;
            Counts::Uniform(count)
        } else {
            let mut starts = Vec::with_capacity(entries + 1);
            let mut total = 0_usize;
            starts.push(0);
            for entry in 0..entries {
                let count = first_dimension(&jagged, entry, first)
                    .checked_mul(inner)
                    .and_then(|count| total.checked_add(count))
                    .filter(|total| *total <= MAX_TURNS)
                    .ok_or_else(too_many)?;
                total = count;
                starts.push(total);
            }
            Counts::Varying(starts)
        };
        Ok(Self { counts, volumes })
    }

    /// The number of turns of the dimensions from `d` (not 0) inwards.
    fn volume(&self, d: usize) -> usize {
        self.volumes.get(d).copied().unwrap_or(1)
    }

    /// The number of turns of every entry, if all have the same.
    pub(crate) fn uniform(&self) -> Option<usize> {
        match self.counts {
            Counts::Uniform(count) => Some(count),
            Counts::Varying(_) => None,
        }
    }

    /// The shape of the loop over `entries` entries as a column: offsets of its items, if their
    /// number differs between entries, and the dimensions of an item.
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

    /// The number of turns in all entries before `entry`.
    pub(crate) fn start(&self, entry: usize) -> usize {
        match &self.counts {
            Counts::Uniform(count) => entry * count,
            Counts::Varying(starts) => {
                starts.get(entry).or_else(|| starts.last()).copied().unwrap_or(0)
            }
        }
    }

    /// The number of turns of `entry`.
    pub(crate) fn count(&self, entry: usize) -> usize {
        self.start(entry + 1) - self.start(entry)
    }

    /// The entry of turn number `flat` of the chunk, which is not before entry `from`.
    pub(crate) fn entry_of(&self, flat: usize, from: usize) -> usize {
        match &self.counts {
            Counts::Uniform(count) => flat / (*count).max(1),
            Counts::Varying(starts) => {
                let tail = starts.get(from..).unwrap_or_default();
                // Usually this is the same entry or one of the next few.
                let near = tail.iter().take(8).position(|start| *start > flat);
                let after = near.unwrap_or_else(|| tail.partition_point(|start| *start <= flat));
                (from + after).saturating_sub(1)
            }
        }
    }
}

/// The length of the first dimension of the loop in `entry`: 0 where a fixed index is out of range.
fn first_dimension(jagged: &[&BoundColumn<'_>], entry: usize, fixed: usize) -> usize {
    let mut shortest = fixed;
    for column in jagged {
        let items = column.items(entry).unwrap_or(0);
        match column.indices.first() {
            Some(BoundIndex::All) if shortest == 1 || items < shortest => shortest = items,
            Some(BoundIndex::At(at)) if *at >= items => return 0,
            _ => {}
        }
    }
    shortest
}

/// Fails if lists in lists meet other arrays: they are one long loop here, which does not pair with
/// the dimensions of other branches as in ROOT.
fn check_nested(columns: &[BoundColumn<'_>]) -> Result<(), Error> {
    let Some(nested) = columns.iter().find(|column| column.nested) else { return Ok(()) };
    let same = |other: &BoundColumn<'_>| {
        other.indices.is_empty() || (other.nested && other.column.offsets == nested.column.offsets)
    };
    if columns.iter().all(same) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        "lists of lists can be combined with single numbers and with themselves, not with other arrays",
    ))
}

/// Concatenates all values of each entry, whatever lists they are in.
fn concatenate(column: &Column) -> Result<Column, Error> {
    let broken =
        || Error::new(ErrorKind::Corrupt, "a column of lists does not hold what it promises");
    let mut ends: Vec<usize> =
        (0..column.entries).map(|entry| column.value_range(entry).end).collect();
    let mut level = column;
    while let Values::Lists(inner) = &level.values {
        for end in &mut ends {
            *end = match end.checked_sub(1) {
                Some(last) if last < inner.entries => inner.value_range(last).end,
                Some(_) => return Err(broken()),
                None => 0,
            };
        }
        level = inner;
    }
    let mut offsets = vec![0];
    for end in ends {
        offsets.push(i64::try_from(end).map_err(|_| broken())?);
    }
    let entries = column.entries;
    Ok(Column {
        entries,
        offsets: Some(offsets),
        item_shape: Vec::new(),
        values: level.values.clone(),
    })
}

fn too_many() -> Error {
    Error::new(
        ErrorKind::Invalid,
        "the branches together give more elements than can be counted; fix some of their indices",
    )
}

/// Checks what [`Column`] promises.
fn check(name: &str, column: &Column, entries: usize) -> Result<(), Error> {
    let wrong = |what: String| {
        Error::new(ErrorKind::Corrupt, format!("the column of branch `{name}` {what}"))
    };
    if column.entries != entries {
        return Err(wrong(format!("has {} entries, expected {entries}", column.entries)));
    }
    let unsupported = |what: &str| {
        let message = format!("branch `{name}` holds {what}, an expression can use numbers only");
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
                return Err(wrong("has offsets that do not start at 0 and grow".to_owned()));
            }
            offsets.last().and_then(|last| usize::try_from(*last).ok()).unwrap_or(usize::MAX)
        }
    };
    let values = column.values.len();
    if item.and_then(|item| item.checked_mul(items)) != Some(values) {
        return Err(wrong(format!("has {values} values, expected {items} times its shape")));
    }
    Ok(())
}
