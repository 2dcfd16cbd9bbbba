//! A value and a cut over the entries of a tree, and the values that are selected.

use crate::eval::select::select;
use crate::{Chunk, Expression};
use hither_core::Error;

/// A value and a cut. The cut determines the selected values and their weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    /// The value.
    pub value: Expression,
    /// The weight of each value; values of weight zero are not selected.
    pub cut: Option<Expression>,
}

impl Selection {
    /// Parses a value and, if given, a cut.
    ///
    /// # Errors
    /// As [`Expression::parse`].
    pub fn parse(value: &str, cut: Option<&str>) -> Result<Self, Error> {
        Ok(Self {
            value: Expression::parse(value)?,
            cut: cut.map(|cut| Expression::parse(cut).map_err(|e| e.context("cut"))).transpose()?,
        })
    }

    /// The names of the required branches, each once: those of the value, then those of the cut.
    #[must_use]
    pub fn columns(&self) -> Vec<String> {
        let mut names = self.value.columns();
        for name in self.cut.iter().flat_map(Expression::columns) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The selected values of `chunk`.
    ///
    /// Evaluating a chunk without entries, whose columns have the shapes of the real ones, checks
    /// names, shapes and indices before any data is read.
    ///
    /// # Errors
    /// - [`NotFound`](hither_core::ErrorKind::NotFound): the chunk does not have a branch.
    /// - [`Invalid`](hither_core::ErrorKind::Invalid) or
    ///   [`Unsupported`](hither_core::ErrorKind::Unsupported): indices do not fit a branch.
    /// - [`Corrupt`](hither_core::ErrorKind::Corrupt): a column violates the invariants of
    ///   [`hither_formats::Column`].
    pub fn evaluate(&self, chunk: &Chunk<'_>) -> Result<SelectedValues, Error> {
        select(&self.value, self.cut.as_ref(), chunk)
    }
}

/// The selected values, in the order of their entries.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct SelectedValues {
    /// Number of entries evaluated.
    pub entries: u64,
    /// The values.
    pub values: Vec<f64>,
    /// The weight of each value, from the cut; empty if all are 1.
    pub weights: Vec<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_core::ErrorKind;
    use hither_formats::{Column, Values};

    fn scalar(values: Vec<i32>) -> Column {
        let entries = values.len();
        Column { entries, offsets: None, item_shape: vec![], values: Values::I32(values) }
    }

    fn jagged(offsets: Vec<i64>, values: Vec<f32>) -> Column {
        let entries = offsets.len() - 1;
        let values = Values::F32(values);
        Column { entries, offsets: Some(offsets), item_shape: vec![], values }
    }

    #[test]
    fn columns_are_listed_once_in_the_order_of_appearance() {
        let selection = Selection::parse("b*a[n]+b", Some("Sum$(c)>a && `odd one`")).unwrap();
        assert_eq!(selection.columns(), ["b", "a", "n", "c", "odd one"]);
    }

    #[test]
    fn a_chunk_without_entries_checks_names_and_shapes() {
        let fixed =
            Column { entries: 0, offsets: None, item_shape: vec![5], values: Values::F32(vec![]) };
        let n = scalar(vec![]);
        let j = jagged(vec![0], vec![]);
        let chunk = Chunk::new(0, 0).with("fixed", &fixed).with("n", &n).with("j", &j);
        for (text, kind, part) in [
            ("fixed[5]", ErrorKind::Invalid, "index 5 of dimension 1 of `fixed` is out of range"),
            ("n[0]", ErrorKind::Invalid, "`n` is not an array"),
            ("j[1][2]", ErrorKind::Invalid, "`j` has 1 dimension, 2 indices given"),
            ("fixde", ErrorKind::NotFound, "did you mean `fixed`?"),
            ("fixed[j]", ErrorKind::Unsupported, "must be one number in each entry, `j` is"),
            ("Alt$(j, fixed)", ErrorKind::Unsupported, "second argument of `Alt$`"),
        ] {
            let error = Selection::parse(text, None).unwrap().evaluate(&chunk).unwrap_err();
            assert_eq!(error.kind(), kind, "{text}");
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
        let valid = Selection::parse("fixed[4]+j[7]", Some("n")).unwrap();
        assert_eq!(valid.evaluate(&chunk).unwrap(), SelectedValues::default());
    }

    #[test]
    fn a_column_that_breaks_its_invariants_is_corrupt() {
        for column in [
            scalar(vec![1, 2, 3]),
            jagged(vec![0, 2, 1], vec![1.0]),
            jagged(vec![0, 1, 3], vec![1.0]),
            jagged(vec![1, 1, 1], vec![1.0]),
            jagged(vec![0, i64::MAX, i64::MAX], vec![1.0]),
            Column { item_shape: vec![usize::MAX, 2], ..scalar(vec![1, 2]) },
        ] {
            let chunk = Chunk::new(0, 2).with("x", &column);
            let error = Selection::parse("x", None).unwrap().evaluate(&chunk).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
    }

    #[test]
    fn weights_of_one_are_stored_once_another_weight_occurs() {
        let x = scalar((0..10_000).collect());
        let chunk = Chunk::new(0, 10_000).with("x", &x);
        let selection = Selection::parse("x", Some("x>=100 ? 1+(x==9000) : 0")).unwrap();
        let selected = selection.evaluate(&chunk).unwrap();
        assert_eq!(selected.values.len(), 9900);
        assert_eq!(selected.weights.len(), 9900);
        assert!((selected.weights.iter().sum::<f64>() - 9901.0).abs() < 1e-9);
        assert_eq!(selected.weights[8900], 2.0);
    }
}
